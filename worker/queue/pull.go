package queue

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/asynqwire"
	"github.com/pushpace/pushpace/internal/base/redisreply"
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
	// InHand is about how many such jobs the process has in hand.
	InHand int
	// Skipped is called with how many a pull has left.
	Skipped func(n int64)
}

// skipRounds is how many scripts one pull runs that find nothing but what stays.
const skipRounds = 8

// prefetched is how many jobs one pull takes from a queue at most: what is done at once
// shares commands. Where the last one is of a user's burst, the pull goes on up to
// prefetchedBurst, so that one process decides of the burst, in its order. They are active
// on the queue from then on, and are handed out one by one.
const (
	prefetched      = 64
	prefetchedBurst = 256
)

// headStart is how long the rest of a burst waits where another worker has its beginning,
// which is to ask the limiter first.
const headStart = 20 * time.Millisecond

// handOut is how long a job may lie before its lease is looked after. asynq
// looks after the leases of what it has in hand.
const handOut = 5 * time.Second

// pullScript is asynq's dequeueCmd for several jobs. What is only for
// something stalled it leaves on the queue, as asynq leaves what is to be retried. It begins
// with a write that changes nothing, and that a Redis without memory refuses: what
// were taken could not be finished. From the first job on nothing of one job's can
// make it break off, so that none is lost; as one of its keys is never there, a Cluster does
// not run it while the slot moves, when a task may be elsewhere.
//
// KEYS  pending, paused, active, lease, retry, a string that is never there, the idle
// ARGV  end of the lease (s), prefix of the tasks' keys, how many, how long a
// message may be; the channel of an idle worker or none, and for how long (s); how many of a
// burst; the worker's ID by its sign of life; then of each that is stalled its mark and
// until when its jobs stay (Unix s)
//
// It returns how many stay, whether the queue is empty then, whether another worker
// has the job before the first one, of the same burst, and those in hand as client.read
// has them.
var pullScript = redis.NewScript(readMessage + `
if redis.call('EXISTS', KEYS[2]) == 1 then return {0, 1, 0} end
redis.call('SETRANGE', KEYS[6], 0, '')
redis.call('LLEN', KEYS[3])
redis.call('ZCARD', KEYS[4])
redis.call('ZCARD', KEYS[5])
local longest, head = tonumber(ARGV[4]), 0
for i = 9, #ARGV, 2 do head = math.max(head, 128 + #ARGV[i]) end
local function stays(message)
  if type(message) ~= 'string' or head == 0 then return nil end
  message = string.sub(message, 1, head) -- the mark comes before the notification
  for i = 9, #ARGV, 2 do
    if string.find(message, ARGV[i], 1, true) then return ARGV[i + 1] end
  end
end
local most, ids, leases, later, answer = tonumber(ARGV[3]), {}, {}, {}, {0, 0, 0}
local function whose(message) -- the app, user and category as they are encoded
  local from = type(message) == 'string' and string.find(message, '"app":', 1, true)
  local to = from and string.find(message, ',"targets":', from, true)
  return to and string.sub(message, from, to)
end
local before = redis.call('LINDEX', KEYS[3], 0) -- the job that any worker took last, until it is done
local last, looked = nil, 0 -- the message taken last, and how many jobs were looked at
local function take(id)
  looked = looked + 1
  local key = ARGV[2] .. id
  local message = read(key, longest)
  if not message and redis.call('EXISTS', key) == 0 then return end -- of a job that has ended
  last = message
  local at = stays(message)
  if at then
    redis.call('HSET', key, 'state', 'retry')
    later[#later + 1] = at
    later[#later + 1] = id
    answer[1] = answer[1] + 1
    return
  end
  if message ~= -1 then
    redis.call('HSET', key, 'state', 'active', 'worker', ARGV[8])
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
while #ids < most and looked < 256 do
  local popped = redis.call('RPOP', KEYS[1], most - #ids)
  if not popped then
    answer[2] = 1
    if ARGV[5] ~= '' then
      redis.pcall('SADD', KEYS[7], ARGV[5])
      redis.pcall('EXPIRE', KEYS[7], ARGV[6])
    end
    break
  end
  for _, id in ipairs(popped) do take(id) end
end
local burst = #ids == most and whose(last)
while burst and #ids < tonumber(ARGV[7]) do
  local id = redis.call('LINDEX', KEYS[1], -1)
  if not id or whose(read(ARGV[2] .. id, longest)) ~= burst then break end
  redis.call('RPOP', KEYS[1])
  take(id)
end
if before and redis.pcall('HGET', ARGV[2] .. before, 'worker') ~= ARGV[8] then
  local first = whose(answer[5]) -- the first one's message
  if first and whose(read(ARGV[2] .. before, longest)) == first then answer[3] = 1 end
end
if #ids > 0 then
  redis.call('LPUSH', KEYS[3], unpack(ids))
  redis.call('ZADD', KEYS[4], unpack(leases))
end
if #later > 0 then redis.call('ZADD', KEYS[5], unpack(later)) end
return answer
`)

// A pulled job is active on the queue, and in nobody's hands yet.
type pulled struct {
	Job
	message string
	at      time.Time
	lease   any  // its end, in s
	follows bool // another worker has the one before it of the same burst
}

// dequeue takes the place of dequeueCmd: it hands out one job of several that are
// pulled at once, asks nothing of a queue that was found empty, and waits for a word
// when all are.
func (c *client) dequeue(ctx context.Context, keys []string, args []any) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	queue := c.shard.QueueOf(keys[0])
	if c.refusals.recording() || c.ending.Err() != nil || !c.life.term.Load().Sure() {
		_ = clock.Sleep(c.ending, failedPause)
		cmd.SetErr(redis.Nil)
		return cmd
	}
	if c.config.Hands.full(queue) {
		c.stale(ctx, queue)
		if c.idle.ask(queue, handsFull); c.config.Hands.full(push.Critical.Queue()) {
			c.config.Hands.wait(c.ending)
		}
		cmd.SetErr(redis.Nil)
		return cmd
	}
	job, err := c.handOut(ctx, queue, keys, args)
	switch {
	case err != nil:
		c.idle.ask(queue, 0)
		_ = clock.Sleep(c.ending, failedPause) // asynq asks again at once
		cmd.SetErr(err)
	case job == nil:
		if !c.more() {
			c.idle.wait(c.ending)
		}
		cmd.SetErr(redis.Nil)
	default:
		cmd.SetVal(job.message)
	}
	return cmd
}

// handOut takes the next job of the queue in hand, nil for none. asynq asks for one job
// after another, so that they are taken in hand in their order.
func (c *client) handOut(ctx context.Context, queue string, keys []string, args []any) (job *pulled, err error) {
	if job = c.next(ctx, queue); job == nil && c.idle.claim(queue) {
		if c.strays.due() && !c.failed.Load() {
			c.reclaim()
		}
		job, err = c.pull(ctx, queue, keys, args)
		c.failed.Store(err != nil)
		c.strays.suspect(err)
		c.refusals.pulled(queue, err)
	}
	if job != nil {
		c.works.note(job.ID, job.worked(c.workOf(job.Job)))
	}
	return job, err
}

// worked returns the work on the job. It is lost when another worker may have the job.
func (p *pulled) worked(work Work) Work {
	term, follows := p.Term, p.follows
	return func(ctx context.Context) error {
		if follows {
			_ = clock.Sleep(ctx, headStart)
		}
		err := work(ctx)
		if err != nil && term.Lost(ctx) {
			return ErrLost
		}
		return err
	}
}

// workOf takes a job in hand. A panic over it costs that job its visit alone.
func (c *client) workOf(job Job) (work Work) {
	defer func() {
		if cause := recover(); cause != nil {
			err := c.panicked(context.Background(), job.ID, cause)
			work = func(context.Context) error { return err }
		}
	}()
	job.At = c.server
	return c.handler.Take(job)
}

// more reports whether there may be a job on one of the queues.
func (c *client) more() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for queue, ready := range c.ready {
		if len(ready) > 0 && !c.config.Hands.full(queue) {
			return true
		}
	}
	return !c.idle.next().After(time.Now())
}

// failedPause is how long nothing is pulled after a pull that failed.
const failedPause = 100 * time.Millisecond

// skipPause is for how long a queue is not asked of which much was left that stays.
const skipPause = 20 * time.Millisecond

// pull takes jobs from the queue, hands out the first and keeps the others. It
// returns nil when there is none, or many that cannot be handed out come before it.
func (c *client) pull(ctx context.Context, queue string, keys []string, args []any) (*pulled, error) {
	for range skipRounds {
		jobs, empty, err := c.take(ctx, queue, keys, args)
		if err != nil {
			return nil, err
		}
		if len(jobs) > 0 {
			c.idle.ask(queue, 0)
			c.mu.Lock()
			c.ready[queue] = append(c.ready[queue], jobs[1:]...)
			c.mu.Unlock()
			return &jobs[0], nil
		}
		if empty {
			return nil, nil
		}
	}
	c.idle.ask(queue, skipPause)
	return nil, nil
}

// take takes jobs from the queue, and reports whether it is empty then.
func (c *client) take(ctx context.Context, queue string, keys []string, args []any) (jobs []pulled, empty bool, err error) {
	most, burst, stalled := prefetched, prefetchedBurst, c.config.Stalled(queue, time.Now())
	if c.config.Hands.count() > prefetched {
		burst = most // to take one of many in hand out of the active list is dear
	}
	if c.failed.Load() {
		most, burst = 1, 1 // what a lost answer holds is nobody's until its lease is over
	}
	lease, term := args[0], c.life.term.Load()
	args = []any{lease, args[1], most, asynqwire.MaxEnvelopeSize, c.idle.entered(), int(max(1, idlePolls*c.idle.poll/time.Second)), burst, term.id}
	stuck := 0
	for _, s := range stalled {
		args = append(args, s.Mark, s.Until.Unix())
		stuck += s.InHand
	}
	c.mu.Lock()
	c.stuck[queue] = stuck
	c.mu.Unlock()
	keys = slices.Concat(keys, []string{c.shard.QueueKey(queue, "retry"), c.shard.QueueKey(queue, "room"), c.shard.IdleKey(queue)})
	reply, err := pullScript.Run(ctx, c.UniversalClient, keys, args...).Slice()
	if err != nil {
		return nil, false, err
	}
	n, _ := reply[0].(int64)
	jobs, _ = c.read(ctx, queue, reply[3:]) // what is not set aside yet is found again
	c.strays.hold(jobs)
	for _, s := range stalled {
		s.Skipped(n)
	}
	now := time.Now()
	for i := range jobs {
		jobs[i].at, jobs[i].lease, jobs[i].Term = now, lease, term
	}
	if len(jobs) > 0 {
		jobs[0].follows = reply[2] == int64(1)
	}
	return jobs, reply[1] == int64(1), nil
}

// next hands out a job that was pulled before, or nil.
func (c *client) next(ctx context.Context, queue string) *pulled {
	c.stale(ctx, queue)
	c.mu.Lock()
	defer c.mu.Unlock()
	ready := c.ready[queue]
	if len(ready) == 0 {
		return nil
	}
	c.ready[queue] = ready[1:]
	return &ready[0]
}

// stale has what was pulled and has lain for long go back to the head of its queue: it is
// pulled again with a lease of its own.
func (c *client) stale(ctx context.Context, queue string) {
	c.mu.Lock()
	ready := c.ready[queue]
	old := len(ready) > 0 && time.Since(ready[0].at) >= handOut
	c.mu.Unlock()
	if old {
		_ = c.putBack(ctx, queue) // else it is found when its lease is over
	}
}

// putBackScript returns a job to the head of its queue as long as its lease is
// the one given.
// KEYS  active, lease, pending, task, the idle; ARGV  ID, end of the lease, the worker
// that has the job
var putBackScript = redis.NewScript(asynqwire.WakeIdle + ownedBy("KEYS[4]", "ARGV[3]") + `
if tonumber(redis.call('ZSCORE', KEYS[2], ARGV[1]) or -1) ~= tonumber(ARGV[2]) then return 0 end
if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 0 then return 0 end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('RPUSH', KEYS[3], ARGV[1])
redis.call('HSET', KEYS[4], 'state', 'pending')
wake(KEYS[5])
return 1
`)

// putBack returns what was pulled and not handed out to its queue.
func (c *client) putBack(ctx context.Context, queue string) error {
	c.mu.Lock()
	jobs := c.ready[queue]
	delete(c.ready, queue)
	c.mu.Unlock()
	var errs []error
	for _, job := range slices.Backward(jobs) {
		keys := []string{c.shard.QueueKey(queue, "active"), c.shard.QueueKey(queue, "lease"), c.shard.QueueKey(queue, "pending"), c.shard.QueueKey(queue, "t:"+job.ID), c.shard.IdleKey(queue)}
		err := putBackScript.Run(ctx, c.alone, keys, job.ID, job.lease, job.Term.id).Err()
		if c.strays.drop(job.ID); err != nil && !redisreply.NotFound(err) {
			c.strays.suspect(err)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
