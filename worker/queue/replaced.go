package queue

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// returnJob insists on returnScript, or for a job whose lease is over on retryCmd. Where
// the answer is lost it may have been done, and the job may be in hand again by now, also
// in this worker's: to do it again would take the job from there, and have a third send
// beside that one.
func (c *client) returnJob(ctx context.Context, keys []string, args []any) *redis.Cmd {
	message, _ := args[1].([]byte)
	envelope, _ := store.ReadEnvelope(string(message))
	run := func(ctx context.Context) *redis.Cmd { return c.UniversalClient.EvalSha(ctx, retryHash, keys, args...) }
	queue, back := c.shard.QueueOf(keys[1]), readReturn(envelope.Error)
	if envelope.Error != asynq.ErrLeaseExpired.Error() {
		keys = append(slices.Clip(keys), c.shard.QueueKey(queue, "due"))
		owned := append(slices.Clip(args), c.life.term.Load().id)
		run = func(ctx context.Context) *redis.Cmd {
			return returnScript.Run(ctx, c.UniversalClient, keys, append(owned, back.left(time.Now()).Microseconds())...)
		}
	}
	if back.Why == Lost {
		return redis.NewCmdResult("OK", nil)
	}
	again := false
	cmd := c.insist(ctx, func(ctx context.Context) *redis.Cmd {
		if again {
			known, err := c.HGet(ctx, keys[0], "msg").Result()
			if errors.Is(err, redis.Nil) || err == nil && returned(known, string(message)) {
				err = store.ErrNotInHand
			}
			if err != nil {
				cmd := redis.NewCmd(ctx)
				cmd.SetErr(err)
				return cmd
			}
		}
		again = true
		return run(ctx)
	})
	if cmd.Err() == nil && back.Why != Crashed {
		c.idle.dueIn(queue, back.left(time.Now()))
	}
	return cmd
}

// returnScript is retryCmd, which puts a job back on its queue to come later, by Redis's clock:
// a job that another worker does not have by now. asynq's instants are whole seconds.
//
// KEYS  task, active, lease, retry, asynq's counts of the day, processed and failed, and
// in all; when delayed jobs are due
// ARGV  ID, message, not used, end of the day's counts, 1 for a failure, the most that is
// counted; the worker that has the job, after how long it is due (µs)
var returnScript = redis.NewScript(ownedBy("KEYS[1]", "ARGV[7]") + `
if redis.call('LREM', KEYS[2], 0, ARGV[1]) == 0 then return redis.error_reply('NOT FOUND') end
if redis.call('ZREM', KEYS[3], ARGV[1]) == 0 then return redis.error_reply('NOT FOUND') end
local clock = redis.call('TIME')
local due = clock[1] * 1000000 + clock[2] + ARGV[8]
redis.call('ZADD', KEYS[4], math.ceil(due / 1000000), ARGV[1])
redis.call('ZADD', KEYS[9], string.format('%.0f', due), ARGV[1])
redis.call('HSET', KEYS[1], 'msg', ARGV[2], 'state', 'retry')
if tonumber(ARGV[5]) == 1 then
  for day = 5, 6 do
    if redis.call('INCR', KEYS[day]) == 1 then redis.call('EXPIREAT', KEYS[day], ARGV[4]) end
  end
  if tonumber(redis.call('GET', KEYS[7])) == tonumber(ARGV[6]) then
    redis.call('SET', KEYS[7], 1)
    redis.call('SET', KEYS[8], 1)
  else
    redis.call('INCR', KEYS[7])
    redis.call('INCR', KEYS[8])
  end
end
return redis.status_reply('OK')
`)

// endScript is doneCmd, which ends a job: one that another worker does not have by now. It
// answers 0 and ends nothing where the notification still waits by its record, on this queue or
// none that is known: a failover has undone its end.
//
// KEYS  active, lease, task, asynq's counts of the day and in all, the record
// ARGV  ID, end of the day's counts, the most that is counted; the worker that has the job, the
// queue
var endScript = redis.NewScript(ownedBy("KEYS[3]", "ARGV[4]") + `
local record = redis.pcall('HMGET', KEYS[6], 'state', 'queue')
if record[1] == 'waiting' and (record[2] or ARGV[5]) == ARGV[5] then return 0 end
if redis.call('LREM', KEYS[1], 0, ARGV[1]) == 0 then return redis.error_reply('NOT FOUND') end
if redis.call('ZREM', KEYS[2], ARGV[1]) == 0 then return redis.error_reply('NOT FOUND') end
if redis.call('DEL', KEYS[3]) == 0 then return redis.error_reply('NOT FOUND') end
if redis.call('INCR', KEYS[4]) == 1 then redis.call('EXPIREAT', KEYS[4], ARGV[2]) end
if tonumber(redis.call('GET', KEYS[5])) == tonumber(ARGV[3]) then
  redis.call('SET', KEYS[5], 1)
else
  redis.call('INCR', KEYS[5])
end
return redis.status_reply('OK')
`)

// ownedBy has a script break off for a task that names another worker.
func ownedBy(task, worker string) string {
	return "if redis.call('HGET', " + task + ", 'worker') ~= " + worker + " then return redis.error_reply('NOT FOUND') end\n"
}

// returned reports whether the message that asynq has of a job is the one that it
// was to be put back with, or one of a later visit.
func returned(known, message string) bool {
	there, err := store.ReadEnvelope(known)
	ours, _ := store.ReadEnvelope(message)
	return known == message || err == nil && there.Retried > ours.Retried
}

// cutOffScript is requeueCmd, which returns a job to the head of its
// queue, and counts a failure: of a job that another worker does not have by now.
//
// KEYS  active, lease, pending, task, the idle
// ARGV  ID, what is put behind the message, the worker that has the job
var cutOffScript = redis.NewScript(store.WakeIdle + ownedBy("KEYS[4]", "ARGV[3]") + `
if redis.call('LREM', KEYS[1], -1, ARGV[1]) == 0 then return redis.error_reply('NOT FOUND') end
if redis.call('ZREM', KEYS[2], ARGV[1]) == 0 then return redis.error_reply('NOT FOUND') end
redis.call('RPUSH', KEYS[3], ARGV[1])
redis.call('HSET', KEYS[4], 'state', 'pending', 'msg', (redis.call('HGET', KEYS[4], 'msg') or '') .. ARGV[2])
wake(KEYS[5])
return redis.status_reply('OK')
`)

// cutOff returns a job to its queue that a shutdown cuts off. It may be on its way
// to a provider, or sent and not recorded, which asynq does not count: so that the
// next visit looks at the record, and takes nothing for not sent, this does.
func (c *client) cutOff(ctx context.Context, keys []string, args []any) (cmd *redis.Cmd) {
	defer func() {
		if err := cmd.Err(); err != nil && !redisreply.NotFound(err) {
			c.left.Store(true)
		}
	}()
	message, err := c.HGet(ctx, keys[3], "msg").Result()
	if err != nil {
		cmd = redis.NewCmd(ctx)
		cmd.SetErr(err)
		return cmd
	}
	envelope, _ := store.ReadEnvelope(message)
	queue := c.shard.QueueOf(keys[0])
	keys = append(slices.Clip(keys), c.shard.IdleKey(queue))
	return cutOffScript.Run(ctx, c.UniversalClient, keys, args[0], envelope.FailedOnceMore(), c.life.term.Load().id)
}

// forward takes the place of forwardCmd, which asynq runs of each queue for what is scheduled,
// and then for what is to be retried: one of them looks at all, unless others do.
func (c *client) forward(ctx context.Context, keys []string) *redis.Cmd {
	if keys[0] != c.shard.QueueKey(push.Critical.Queue(), "scheduled") || c.config.Role().Rests(c.forwards.Add(1)) {
		return redis.NewCmdResult(int64(0), nil)
	}
	var all []string
	of := []any{time.Now().Add(parkedFor).Unix()}
	for _, p := range []push.Priority{push.Critical, push.Default, push.Bulk} {
		for _, name := range []string{"scheduled", "retry", "pending", "idle", "parked:"} {
			all = append(all, c.shard.QueueKey(p.Queue(), name))
		}
		of = append(of, c.shard.QueueKey(p.Queue(), "t:"))
	}
	return forwardScript.Run(ctx, c.UniversalClient, all, of...)
}

// forwardScript is forwardCmd for several queues, which stops for ever at a task whose key is
// of another type, and knows no groups.
//
// KEYS  of each queue scheduled, retry, pending, the idle, parked: as the sets of parked jobs
// begin
// ARGV  until when parked jobs stay from now on (s); of each queue the prefix of the tasks' keys
var forwardScript = redis.NewScript(store.WakeIdle + parkedAs + `
local moved, clock = 0, redis.call('TIME') -- the scores are by this clock
local since = clock[1] .. string.format('%06d', clock[2]) .. '000' -- in ns
local function stays(task, parked, retry, id) -- whether it is parked, which it is for longer then
  local as = redis.pcall('HGET', task .. id, 'parked')
  local at = type(as) == 'string' and string.find(as, '\n', 1, true)
  if not at or type(redis.pcall('ZSCORE', parked .. string.sub(as, 1, at - 1), string.sub(as, at + 1))) ~= 'string' then return false end
  redis.call('ZADD', retry, ARGV[1], id)
  return true
end
for q = 1, #KEYS / 5 do
  local retry, pending, idle, parked, task = KEYS[5 * q - 3], KEYS[5 * q - 2], KEYS[5 * q - 1], KEYS[5 * q], ARGV[1 + q]
  for delayed = 5 * q - 4, 5 * q - 3 do
    local ids, due = {}, redis.call('ZRANGEBYSCORE', KEYS[delayed], '-inf', clock[1], 'LIMIT', 0, 100)
    for _, id in ipairs(due) do
      if KEYS[delayed] == retry and stays(task, parked, retry, id) then
        moved = moved + 1
      else
        ids[#ids + 1] = id
      end
    end
    if #ids > 0 then
      redis.call('LPUSH', pending, unpack(ids))
      redis.call('ZREM', KEYS[delayed], unpack(ids))
    end
    for _, id in ipairs(ids) do redis.pcall('HSET', task .. id, 'state', 'pending', 'pending_since', since) end
    for _ = 1, #ids do
      if not wake(idle) then break end
    end
    moved = moved + #ids
  end
end
return moved
`)

// crashed takes the place of listLeaseExpiredCmd, which fails for all the jobs
// whose lease is over when one cannot be read. What is not to be recovered is set
// aside. What cannot be now is found again a minute later.
func (c *client) crashed(lease string, args []any) *redis.Cmd {
	ctx, cancel := context.WithTimeout(c.ending, crashedTimeout) // asynq has none
	defer cancel()
	queue, messages := c.shard.QueueOf(lease), []any{}
	for {
		reply, err := overScript.Run(ctx, c.UniversalClient, []string{lease, c.shard.QueueKey(queue, "active")},
			args[0], args[1], store.MaxEnvelopeSize, len(messages), overPage).Slice()
		if err != nil {
			return redis.NewCmdResult(nil, err)
		}
		n, _ := reply[0].(int64)
		jobs, err := c.read(ctx, queue, reply[1:])
		for _, job := range jobs {
			messages = append(messages, job.message)
		}
		if err != nil || n < overPage { // the next page would fail as well
			return redis.NewCmdResult(messages, nil)
		}
	}
}

// crashedTimeout bounds a look at what crashed workers have left.
const crashedTimeout = 10 * time.Second

// overPage is how many leases are looked at at once.
const overPage = 100

// overScript returns how many leases it has looked at, and their jobs as client.read
// has them. A lease without a task it removes: that has ended meanwhile, and may be
// about to come again.
//
// KEYS  lease, active
// ARGV  until (s), prefix of the tasks' keys, how long a message may be, offset, how
// many
var overScript = redis.NewScript(readMessage + `
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', ARGV[4], ARGV[5])
local answer = {#ids}
for _, id in ipairs(ids) do
  local key = ARGV[2] .. id
  local message = read(key, tonumber(ARGV[3]))
  if not message and redis.call('HLEN', key) == 0 then
    redis.call('LREM', KEYS[2], 0, id)
    redis.call('ZREM', KEYS[1], id)
  else
    answer[#answer + 1] = id
    answer[#answer + 1] = message or ''
  end
end
return answer
`)
