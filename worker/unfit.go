package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/push"
)

// An unfit job is one that asynq is not to see: it could not read it, and would
// stop recovering crashed workers' jobs, or would lose it by its options.
type unfit struct {
	queue, id string
	reason    push.MalformedReason
	why       string
	message   string // asynq's; "" when it is not read
}

// unreadJob is one whose message was not read for its length in bytes, or, when
// that is negative, because its key in Redis is of another type.
func unreadJob(queue, id string, length int64) unfit {
	if length < 0 {
		return unfit{queue, id, push.MalformedEnvelope, "the task's key in Redis is not a hash", ""}
	}
	return unfit{queue, id, push.MalformedSize, fmt.Sprintf("the message has %d bytes, at most %d are read; it is not kept", length, push.MaxEnvelopeSize), ""}
}

// unfitFor is why a job cannot be taken; "" when it can.
func unfitFor(e *push.Envelope) string {
	if e.Deadline != 0 {
		return "asynq's Deadline is not taken: a notification says expires_at"
	}
	return ""
}

// adopt reads the job's envelope, and answers whether asynq may have it: with the
// options of our Producer's, whoever has put it on the queue.
func (p *puller) adopt(ctx context.Context, job *pulled) bool {
	e, err := push.ReadEnvelope(job.message)
	job.back = e.Back
	if err == nil && !e.Foreign() {
		return true
	}
	why := unfitFor(&e)
	if err != nil {
		why = err.Error()
	}
	queue := queueOf(job.keys[0])
	if why != "" {
		p.setAside(ctx, unfit{queue, job.id, push.MalformedEnvelope, why, job.message})
		return false
	}
	job.foreign, job.message = true, push.Adopted(job.message)
	if strings.HasPrefix(e.UniqueKey, push.QueueKey(queue, "unique:")) {
		// asynq's lock is over when the job is in a worker's hands
		if err := unlockScript.Run(ctx, p.UniversalClient, []string{e.UniqueKey}, job.id).Err(); err != nil {
			p.refusals.log.LogAttrs(ctx, slog.LevelWarn, "asynq's lock of a unique task stays until it is over", slog.String("task", job.id), slog.Any("error", err))
		}
	}
	return true
}

// unlockScript ends asynq's lock of a unique task. KEYS the lock; ARGV the task's ID
var unlockScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
`)

// setAside keeps the job as a dead letter. One that is not kept now is found again
// when its lease is over: see sweep.go.
func (p *puller) setAside(ctx context.Context, job unfit) {
	if err := p.aside(ctx, job); err != nil {
		p.refusals.log.LogAttrs(ctx, slog.LevelWarn, "a job is not set aside yet", slog.String("task", job.id), slog.String("queue", job.queue), slog.Any("error", err))
	}
}

// keepAside keeps a job that is in hand as a dead letter, and takes it out of
// asynq's sets.
func (h *handler) keepAside(ctx context.Context, job unfit) error {
	letter := &push.Letter{
		ID: job.id, State: push.Malformed, Reason: string(job.reason), Error: job.why,
		At: time.Now().UTC(), Queue: job.queue, Job: []byte(job.message),
	}
	if err := h.Records.SetAside(ctx, letter); err != nil {
		return err
	}
	pipe := h.Queue.TxPipeline()
	pipe.LRem(ctx, push.QueueKey(job.queue, "active"), 0, job.id)
	pipe.ZRem(ctx, push.QueueKey(job.queue, "lease"), job.id)
	pipe.Unlink(ctx, push.QueueKey(job.queue, "t:"+job.id))
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	h.Log.LogAttrs(ctx, slog.LevelWarn, "job set aside", slog.String("task", job.id), slog.String("queue", job.queue),
		slog.String("reason", string(job.reason)), slog.String("error", job.why))
	h.Observer.Ended(letter.State)
	return nil
}

// forwardScript is asynq's forwardCmd, which stops for ever at a task whose key is
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

// ungroupScript has tasks be due that were put into groups.
//
// KEYS  the groups, pending
// ARGV  prefix of the groups' keys, prefix of the tasks' keys, now (ns)
var ungroupScript = redis.NewScript(`
local moved = 0
for _, group in ipairs(redis.call('SRANDMEMBER', KEYS[1], 10)) do
  local ids = redis.pcall('ZPOPMIN', ARGV[1] .. group, 100)
  if #ids == 0 then redis.call('SREM', KEYS[1], group) end
  for i = 1, #ids, 2 do
    redis.call('LPUSH', KEYS[2], ids[i])
    redis.pcall('HSET', ARGV[2] .. ids[i], 'state', 'pending', 'pending_since', ARGV[3])
    redis.pcall('HDEL', ARGV[2] .. ids[i], 'group')
    moved = moved + 1
  end
end
return moved
`)

// crashed takes the place of asynq's look for the jobs whose lease is over, which
// fails for all of them when one cannot be read.
func (p *puller) crashed(ctx context.Context, lease string, args []any) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	messages := []any{}
	for offset := 0; ; offset += overPage {
		jobs, err := overdue(ctx, p.UniversalClient, lease, args[0], args[1], offset)
		if err != nil {
			cmd.SetErr(err)
			return cmd
		}
		for _, job := range jobs {
			e, err := push.ReadEnvelope(job.message)
			switch {
			case err != nil || unfitFor(&e) != "":
			case e.Foreign():
				messages = append(messages, push.Adopted(job.message))
			default:
				messages = append(messages, job.message)
			}
		}
		if len(jobs) < overPage {
			cmd.SetVal(messages)
			return cmd
		}
	}
}

// overPage is how many leases are looked at at once.
const overPage = 100

// overScript answers triples of ID, message and its length, as in pullScript.
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

func overdue(ctx context.Context, client redis.UniversalClient, lease string, until, tasks any, offset int) ([]over, error) {
	reply, err := overScript.Run(ctx, client, []string{lease}, until, tasks, offset, overPage, push.MaxEnvelopeSize).Slice()
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

// queueOf is the queue of one of asynq's keys: asynq:{QUEUE}:….
func queueOf(key string) string {
	_, rest, _ := strings.Cut(key, "{")
	queue, _, _ := strings.Cut(rest, "}")
	return queue
}
