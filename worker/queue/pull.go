package queue

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/clock"
)

// While a provider is stuck, most of what is pulled may be for it. Each such job
// would go through asynq and back for nothing, at the cost of those for the
// other providers: the pull leaves it on the queue for a while.

// Stalled is what jobs are for that stay on the queue until then.
type Stalled struct {
	Mark  string // that such a job's message has: see push.OnlyMark
	Until time.Time
	// Skipped is called with how many a pull has left.
	Skipped func(n int64)
}

// skipRounds is how many scripts one pull runs that find nothing but what stays.
const skipRounds = 8

// prefetched is how many jobs one pull takes from a queue at most. They are
// active on the queue from then on, and are handed out one by one.
const prefetched = 8

// handOut is how long a job may lie before its lease is looked after. asynq
// looks after the leases of what it has in hand.
const handOut = 5 * time.Second

// pullScript is asynq's dequeueCmd for several jobs. What is only for
// something stalled it leaves on the queue, as asynq leaves what is to be retried. It begins
// with a write that changes nothing, and that a Redis without memory refuses: what
// were taken could not be finished. From the first job on nothing of one job's can
// make it break off, so that none is lost.
//
// KEYS  pending, paused, active, lease, retry, a string that is never there
// ARGV  end of the lease (s), prefix of the tasks' keys, how many, how long a
// message may be; then of each that is stalled its mark and until when its jobs stay
// (Unix s)
//
// It returns how many stay, then those in hand whose message is not read, as pairs
// of ID and length, -1 for a task of another type, and then pairs of ID and message.
var pullScript = redis.NewScript(`
if redis.call('EXISTS', KEYS[2]) == 1 then return {0, {}} end
redis.call('SETRANGE', KEYS[6], 0, '')
redis.call('LLEN', KEYS[3])
redis.call('ZCARD', KEYS[4])
redis.call('ZCARD', KEYS[5])
local longest, head = tonumber(ARGV[4]), 0
for i = 5, #ARGV, 2 do head = math.max(head, 128 + #ARGV[i]) end
local function stays(message)
  if not message or head == 0 then return nil end
  message = string.sub(message, 1, head) -- the mark comes before the notification
  for i = 5, #ARGV, 2 do
    if string.find(message, ARGV[i], 1, true) then return ARGV[i + 1] end
  end
end
local most, ids, leases, later, unread, answer = tonumber(ARGV[3]), {}, {}, {}, {}, {0, {}}
while #ids < most and answer[1] < 256 do
  local id = redis.call('RPOP', KEYS[1])
  if not id then break end
  local key = ARGV[2] .. id
  local message, at
  local length = redis.pcall('HSTRLEN', key, 'msg')
  if type(length) == 'table' then length = -1 end
  if length >= 0 and length <= longest then
    message = redis.call('HGET', key, 'msg')
    at = stays(message)
  else
    unread[#unread + 1] = id
    unread[#unread + 1] = length
  end
  if at then
    redis.call('HSET', key, 'state', 'retry')
    later[#later + 1] = at
    later[#later + 1] = id
    answer[1] = answer[1] + 1
  else
    if length >= 0 then
      redis.call('HSET', key, 'state', 'active')
      redis.call('HDEL', key, 'pending_since')
    end
    ids[#ids + 1] = id
    leases[#leases + 1] = ARGV[1]
    leases[#leases + 1] = id
    if message then
      answer[#answer + 1] = id
      answer[#answer + 1] = message
    end
  end
end
if #ids > 0 then
  redis.call('LPUSH', KEYS[3], unpack(ids))
  redis.call('ZADD', KEYS[4], unpack(leases))
end
if #later > 0 then redis.call('ZADD', KEYS[5], unpack(later)) end
answer[2] = unread
return answer
`)

// A pulled job is active on the queue, and in nobody's hands yet.
type pulled struct {
	id, message string
	back        time.Time // see push.Envelope
	foreign     bool      // see push.Envelope.Foreign
	keys        []string  // asynq's: pending, paused, active, lease
	at          time.Time
	lease       any // its end, in s
}

// dequeue takes the place of dequeueCmd: it hands out one job of several that are
// pulled at once, and asks nothing of a queue that was just found empty.
func (c *client) dequeue(ctx context.Context, keys []string, args []any) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	if c.refusals.recording() {
		cmd.SetErr(redis.Nil)
		return cmd
	}
	job := c.next(ctx, keys[0], args[0])
	if job == nil && !c.foundEmpty(keys[0]) {
		var err error
		job, err = c.pull(ctx, keys, args)
		c.failed.Store(err != nil)
		c.refusals.pulled(keys[0], err)
		if err != nil {
			_ = clock.Sleep(ctx, failedPause) // asynq asks again at once
			cmd.SetErr(err)
			return cmd
		}
		if job == nil {
			c.mu.Lock()
			c.empty[keys[0]] = time.Now().Add(emptyFor)
			c.mu.Unlock()
		}
	}
	if job == nil {
		cmd.SetErr(redis.Nil)
		return cmd
	}
	c.arrivals.note(job)
	cmd.SetVal(job.message)
	return cmd
}

func (c *client) foundEmpty(queue string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Before(c.empty[queue])
}

// failedPause is how long a lane waits after a pull that failed.
const failedPause = 100 * time.Millisecond

// emptyFor is how long a queue that was found empty is not asked again. It
// delays an urgent job by at most as much.
const emptyFor = 20 * time.Millisecond

// pull takes jobs from the queue, hands out the first and keeps the others. It
// returns nil when there is none, or many that cannot be handed out come before it.
func (c *client) pull(ctx context.Context, keys []string, args []any) (*pulled, error) {
	for range skipRounds {
		jobs, more, err := c.take(ctx, keys, args)
		if err != nil || len(jobs) == 0 && !more {
			return nil, err
		}
		if len(jobs) == 0 {
			continue
		}
		c.mu.Lock()
		c.ready[keys[0]] = append(c.ready[keys[0]], jobs[1:]...)
		c.mu.Unlock()
		return &jobs[0], nil
	}
	return nil, nil
}

// take takes jobs from the queue, and reports whether there may be more where
// there are none.
func (c *client) take(ctx context.Context, keys []string, args []any) (jobs []pulled, more bool, err error) {
	most := prefetched
	if c.failed.Load() {
		most = 1 // what a lost answer holds is nobody's until its lease is over
	}
	stalled := c.config.Stalled(time.Now())
	c.stalled.Store(len(stalled) > 0)
	lease := args[0]
	args = []any{lease, args[1], most, push.MaxEnvelopeSize}
	for _, s := range stalled {
		args = append(args, s.Mark, s.Until.Unix())
	}
	queue := strings.TrimSuffix(keys[0], "pending")
	reply, err := pullScript.Run(ctx, c.UniversalClient, slices.Concat(keys, []string{queue + "retry", queue + "room"}), args...).Slice()
	if err != nil {
		return nil, false, err
	}
	n, _ := reply[0].(int64)
	for _, s := range stalled {
		s.Skipped(n)
	}
	unread, _ := reply[1].([]any)
	for i := 0; i+1 < len(unread); i += 2 {
		id, _ := unread[i].(string)
		length, _ := unread[i+1].(int64)
		_ = c.setAside(ctx, unreadJob(queueOf(keys[0]), id, length))
	}
	now := time.Now()
	for i := 2; i+1 < len(reply); i += 2 {
		job := pulled{keys: keys, at: now, lease: lease}
		job.id, _ = reply[i].(string)
		job.message, _ = reply[i+1].(string)
		if c.adopt(ctx, &job) {
			jobs = append(jobs, job)
		}
	}
	return jobs, n > 0 || len(reply) > 2 || len(unread) > 0, nil
}

// next hands out a job that was pulled before, or nil.
func (c *client) next(ctx context.Context, queue string, lease any) *pulled {
	for {
		c.mu.Lock()
		ready := c.ready[queue]
		if len(ready) == 0 {
			c.mu.Unlock()
			return nil
		}
		job := ready[0]
		c.ready[queue] = ready[1:]
		c.mu.Unlock()
		if time.Since(job.at) < handOut || c.renew(ctx, &job, lease) {
			return &job
		}
	}
}

// renewScript lengthens a lease that is still the one given.
// KEYS  lease; ARGV  ID, its end, its new end
var renewScript = redis.NewScript(`
if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or -1) ~= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
return 1
`)

// renew lengthens the lease of a job that has lain for long. It returns false
// when the lease was over, and the job may be somebody else's by now.
func (c *client) renew(ctx context.Context, job *pulled, lease any) bool {
	renewed, err := renewScript.Run(ctx, c.UniversalClient, job.keys[3:], job.id, job.lease, lease).Int()
	return err == nil && renewed == 1
}

// putBackScript returns a job to the head of its queue as long as its lease is
// the one given.
// KEYS  active, lease, pending, task; ARGV  ID, end of the lease
var putBackScript = redis.NewScript(`
if tonumber(redis.call('ZSCORE', KEYS[2], ARGV[1]) or -1) ~= tonumber(ARGV[2]) then return 0 end
if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 0 then return 0 end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('RPUSH', KEYS[3], ARGV[1])
redis.call('HSET', KEYS[4], 'state', 'pending')
return 1
`)

// putBack returns what was pulled and not handed out to its queues.
func (c *client) putBack(ctx context.Context) error {
	c.mu.Lock()
	ready := c.ready
	c.ready = map[string][]pulled{}
	c.mu.Unlock()
	var errs []error
	for _, jobs := range ready {
		for i := len(jobs) - 1; i >= 0; i-- {
			job := &jobs[i]
			pending, active, lease := job.keys[0], job.keys[2], job.keys[3]
			task := strings.TrimSuffix(pending, "pending") + "t:" + job.id
			errs = append(errs, putBackScript.Run(ctx, c.UniversalClient, []string{active, lease, pending, task}, job.id, job.lease).Err())
		}
	}
	return errors.Join(errs...)
}
