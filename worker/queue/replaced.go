package queue

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/push"
)

// returnJob insists on retryCmd, which puts a job back on its queue. Where the answer is lost it may have been
// done, and another worker may have the job by now: to do it again would take the job
// from that one, and have a third send beside it.
func (c *client) returnJob(ctx context.Context, keys []string, args []any) *redis.Cmd {
	message, _ := args[1].([]byte)
	again := false
	return c.insist(ctx, func(ctx context.Context) *redis.Cmd {
		if again {
			known, err := c.HGet(ctx, keys[0], "msg").Result()
			if errors.Is(err, redis.Nil) || err == nil && returned(known, string(message)) {
				err = push.ErrNotInHand
			}
			if err != nil {
				cmd := redis.NewCmd(ctx)
				cmd.SetErr(err)
				return cmd
			}
		}
		again = true
		return c.UniversalClient.EvalSha(ctx, retryHash, keys, args...)
	})
}

// returned reports whether the message that asynq has of a job is the one that it
// was to be put back with, or one of a later visit.
func returned(known, message string) bool {
	there, err := push.ReadEnvelope(known)
	ours, _ := push.ReadEnvelope(message)
	return known == message || err == nil && there.Retried > ours.Retried
}

// cutOffScript is requeueCmd, which returns a job to the head of its
// queue, and counts a failure.
//
// KEYS  active, lease, pending, task
// ARGV  ID, what is put behind the message
var cutOffScript = redis.NewScript(`
if redis.call('LREM', KEYS[1], 0, ARGV[1]) == 0 then return redis.error_reply('NOT FOUND') end
if redis.call('ZREM', KEYS[2], ARGV[1]) == 0 then return redis.error_reply('NOT FOUND') end
redis.call('RPUSH', KEYS[3], ARGV[1])
redis.call('HSET', KEYS[4], 'state', 'pending', 'msg', redis.call('HGET', KEYS[4], 'msg') .. ARGV[2])
return redis.status_reply('OK')
`)

// cutOff returns a job to its queue that a shutdown cuts off. It may be on its way
// to a provider, or sent and not recorded, which asynq does not count: so that the
// next visit looks at the record, and takes nothing for not sent, this does.
func (c *client) cutOff(ctx context.Context, keys []string, args []any) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	message, err := c.HGet(ctx, keys[3], "msg").Result()
	if err != nil {
		cmd.SetErr(err)
		return cmd
	}
	envelope, _ := push.ReadEnvelope(message)
	return cutOffScript.Run(ctx, c.UniversalClient, keys, args[0], envelope.FailedOnceMore())
}

// forwardScript is forwardCmd, which stops for ever at a task whose key is
// of another type. A task of a group is due like any other: nobody gathers groups.
//
// KEYS  scheduled or retry, pending
// ARGV  now (s), prefix of the tasks' keys, now (ns), prefix of the groups' keys
var forwardScript = redis.NewScript(`
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 100)
for _, id in ipairs(ids) do
  redis.call('LPUSH', KEYS[2], id)
  redis.call('ZREM', KEYS[1], id)
  redis.pcall('HSET', ARGV[2] .. id, 'state', 'pending', 'pending_since', ARGV[3])
end
return #ids
`)

// crashed takes the place of listLeaseExpiredCmd, which fails for all the jobs
// whose lease is over when one cannot be read. What is not to be recovered is set
// aside, by one lane: all of them look at the same moment. What cannot be now is
// found again a minute later.
func (c *client) crashed(lease string, args []any) *redis.Cmd {
	if _, looking := c.looking.LoadOrStore(lease, true); looking {
		return redis.NewCmdResult([]any{}, nil)
	}
	defer c.looking.Delete(lease)
	ctx, cancel := context.WithTimeout(c.ending, crashedTimeout) // asynq has none
	defer cancel()
	messages := []any{}
	for {
		jobs, err := c.overdue(ctx, lease, args[0], args[1], len(messages))
		if err != nil {
			return redis.NewCmdResult(nil, err)
		}
		for _, job := range jobs {
			message, err := c.recoverable(ctx, queueOf(lease), job)
			if err != nil { // the next would fail as well
				return redis.NewCmdResult(messages, nil)
			}
			if message != "" {
				messages = append(messages, message)
			}
		}
		if len(jobs) < overPage {
			return redis.NewCmdResult(messages, nil)
		}
	}
}

// crashedTimeout bounds a look at what crashed workers have left.
const crashedTimeout = 10 * time.Second

// recoverable returns the message of a job that asynq is to recover. Of others, "",
// the lease has gone.
func (c *client) recoverable(ctx context.Context, queue string, job over) (message string, err error) {
	if job.length < 0 || job.length > push.MaxEnvelopeSize {
		return "", c.setAside(ctx, unreadJob(queue, job.id, job.length))
	}
	if job.length == 0 {
		fields, err := c.HLen(ctx, push.QueueKey(queue, "t:"+job.id)).Result()
		if err != nil {
			return "", err
		}
		if fields == 0 { // it has ended meanwhile, and may be about to come again
			return "", c.takeOut(ctx, queue, job.id, false)
		}
	}
	e, err := push.ReadEnvelope(job.message)
	switch why := unfitFor(&e, err); {
	case why != "":
		return "", c.setAside(ctx, unfit{queue, job.id, push.MalformedEnvelope, why, job.message})
	case e.Foreign():
		return push.Adopted(job.message), nil
	}
	return job.message, nil
}

// overPage is how many leases are looked at at once.
const overPage = 100

// overScript returns triples of ID, message and its length, as in pullScript.
//
// KEYS  lease
// ARGV  until (s), prefix of the tasks' keys, offset, how many, how long a message
// may be
var overScript = redis.NewScript(`
local answer = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', ARGV[3], ARGV[4])) do
  local key, message = ARGV[2] .. id, ''
  local length = redis.pcall('HSTRLEN', key, 'msg')
  if type(length) == 'table' then length = -1 end
  if length > 0 and length <= tonumber(ARGV[5]) then message = redis.call('HGET', key, 'msg') end
  answer[#answer + 1] = id
  answer[#answer + 1] = message
  answer[#answer + 1] = length
end
return answer
`)

// An over job is one whose lease is over.
type over struct {
	id, message string
	length      int64
}

func (c *client) overdue(ctx context.Context, lease string, until, tasks any, offset int) ([]over, error) {
	reply, err := overScript.Run(ctx, c.UniversalClient, []string{lease}, until, tasks, offset, overPage, push.MaxEnvelopeSize).Slice()
	if err != nil {
		return nil, err
	}
	if len(reply)%3 != 0 {
		return nil, errors.New("an answer about leases is cut off")
	}
	jobs := make([]over, len(reply)/3)
	for i := range jobs {
		jobs[i].id, _ = reply[3*i].(string)
		jobs[i].message, _ = reply[3*i+1].(string)
		jobs[i].length, _ = reply[3*i+2].(int64)
	}
	return jobs, nil
}
