package queue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/clock"
)

// Where a route has no room, most of what is pulled may be for it. Each such job would go
// through asynq and back for nothing, at the cost of those for other routes, and others of
// its user would pass it meanwhile: the pull parks it. Parked jobs lie on their queue like
// all that return, and beside it, in the order of acceptance:
//
//	parked        set of the routes of which jobs are parked
//	parked:ROUTE  sorted set of those, each with when it was accepted
//
// As long as one of a route is parked, whatever comes for the route is, and the next ones
// that are pulled for it are the first of these. So parked jobs are a queue of their route,
// which all workers share.

// parkedFor is after how long a parked job is due by itself: it is parked again, in its place.
const parkedFor = time.Hour

// parkedAs is Lua: a parked task's field tells its route, and its place among those of the route.
const parkedAs = `
local function parkedAs(route, place) return route .. '\n' .. place end
`

// parkRounds is how many scripts one pull runs that find nothing but what is parked.
const parkRounds = 8

// prefetched is how many jobs one pull takes from a queue at most: what is done at once
// shares commands. They are active on the queue from then on, and are handed out one by one.
const prefetched = 64

// remembered is how many jobs at least that were pulled last are known by their users and
// categories: more than are undecided as a rule.
const remembered = 4096

// handOut is how long a job may lie before its lease is looked after. asynq
// looks after the leases of what it has in hand.
const handOut = 5 * time.Second

// pullScript is asynq's dequeueCmd for several jobs. First it moves delayed jobs that are due to
// the head of the queue: they have waited for their turn. What is for a route alone that has no
// room it parks. It begins with a write that changes nothing, and that a Redis without memory
// refuses: what were taken could not be finished. From the first job on nothing of one job's
// can make it break off, so that none is lost; as one of its keys is never there, a Cluster
// does not run it while the slot moves, when a task may be elsewhere.
//
// While there are several workers it keeps which job of each user and category was pulled
// last, in two hashes, of which the older one goes when the newer one is full.
//
// KEYS  pending, paused, active, lease, retry, a string that is never there, the idle, the
// routes of which jobs are parked, and parked: as the sets of these begin; the workers, the
// newer and the older hash; scheduled, and when delayed jobs are due
// ARGV  end of the lease (s), prefix of the tasks' keys, how many, how long a
// message may be; the channel of an idle worker or none, and for how long (s); how many a
// hash is full with; the worker's ID by its sign of life; until when parked jobs stay by
// themselves (Unix s); then of each route that has a bound its name and how many more may be
// taken
//
// It returns whether the queue is empty then, by pairs the jobs that follow one of their user
// and category in another worker's hands and that one, of which routes jobs are parked, after how
// long the next job of an empty queue is due (µs, -1 for none), and those in hand as client.read
// has them.
var pullScript = redis.NewScript(readMessage + parkedAs + `
if redis.call('EXISTS', KEYS[2]) == 1 then return {1, {}, {}, -1} end
redis.call('SETRANGE', KEYS[6], 0, '')
redis.call('LLEN', KEYS[3])
redis.call('ZCARD', KEYS[4])
redis.call('ZCARD', KEYS[5])
redis.call('LLEN', KEYS[1])
redis.call('ZCARD', KEYS[13])
redis.call('ZCARD', KEYS[14])
local several = redis.call('ZCARD', KEYS[10]) > 1
redis.call('HLEN', KEYS[12])
if redis.call('HLEN', KEYS[11]) >= tonumber(ARGV[7]) then redis.call('RENAME', KEYS[11], KEYS[12]) end
local longest, most = tonumber(ARGV[4]), tonumber(ARGV[3])
local room, parked, bounded = {}, {}, #ARGV > 9
for i = 10, #ARGV, 2 do room[ARGV[i]] = tonumber(ARGV[i + 1]) end
for _, route in ipairs(redis.call('SMEMBERS', KEYS[8])) do parked[route], bounded = true, true end
local ids, leases, back, answer = {}, {}, {}, {0, {}, {}, -1}
local function whose(message) -- the app, user and category as they are encoded
  local from = type(message) == 'string' and string.find(message, '"app":', 1, true)
  local to = from and string.find(message, ',"targets":', from, true)
  return to and to - from < 2048 and string.sub(message, from, to)
end
local function acceptedAt(message) -- a text: these are in the order of the instants
  return string.match(string.sub(message, 1, 512), '"accepted_at":"([^"]*)Z"') or ''
end
local function idOf(place) -- which has the instant before it
  return string.sub(place, (string.find(place, ' ', 1, true) or 0) + 1)
end
local function elsewhere(id) -- in another worker's hands
  local task = redis.pcall('HMGET', ARGV[2] .. id, 'state', 'worker')
  return task[1] == 'active' and task[2] ~= ARGV[8]
end
local function follow() -- which of the jobs taken follow one in another's hands
  local users, first, last, found, pulled = {}, {}, {}, {}, {} -- the first and the last accepted one of each
  for i = 5, #answer, 2 do
    local user = whose(answer[i + 1])
    local place = user and acceptedAt(answer[i + 1]) .. ' ' .. answer[i]
    if user and not first[user] then users[#users + 1] = user end
    if user and not (first[user] and first[user] < place) then first[user] = place end
    if user and not (last[user] and last[user] > place) then last[user] = place end
  end
  if #users == 0 then return found end
  local newer, older = redis.call('HMGET', KEYS[11], unpack(users)), redis.call('HMGET', KEYS[12], unpack(users))
  for i, user in ipairs(users) do
    local before = newer[i] or older[i]
    if before and before < first[user] and elsewhere(idOf(before)) then
      found[#found + 1], found[#found + 2] = idOf(first[user]), idOf(before)
    end
    pulled[#pulled + 1], pulled[#pulled + 2] = user, before and before > last[user] and before or last[user]
  end
  redis.call('HSET', KEYS[11], unpack(pulled))
  redis.call('EXPIRE', KEYS[11], 60)
  return found
end
local function routeOf(message) -- the only one that it is for, where any has a bound
  if not bounded or type(message) ~= 'string' then return nil end
  return string.match(string.sub(message, 1, 512), ',"only":"([^"]*)","notification":{') -- it comes before that
end
local function park(id, key, route, accepted)
  local place = accepted .. ' ' .. id
  local put = redis.pcall('ZADD', KEYS[9] .. route, 0, place)
  if type(put) == 'table' then return false end -- a key of another type parks nothing
  if not parked[route] then redis.call('SADD', KEYS[8], route) end
  parked[route] = true
  redis.call('HSET', key, 'state', 'retry', 'parked', parkedAs(route, place))
  back[#back + 1] = ARGV[9]
  back[#back + 1] = id
  return true
end
local function take(id, wasParked)
  local key = ARGV[2] .. id
  local message = read(key, longest)
  if not message and redis.call('EXISTS', key) == 0 then return end -- of a job that has ended
  local route = routeOf(message)
  if route and not wasParked then
    if (parked[route] or (room[route] or 1) < 1) and park(id, key, route, acceptedAt(message)) then return end
  end
  if route and room[route] then room[route] = room[route] - 1 end
  if message ~= -1 then
    redis.call('HSET', key, 'state', 'active', 'worker', ARGV[8])
    redis.call('HDEL', key, 'pending_since', 'parked')
  end
  ids[#ids + 1] = id
  leases[#leases + 1] = ARGV[1]
  leases[#leases + 1] = id
  if message then
    answer[#answer + 1] = id
    answer[#answer + 1] = message
  end
end
local function unpark(route, n) -- takes the first n parked ones of the route, as far as there is room
  local gone, broken = 0, false -- how many were parked and are no longer
  n = math.min(#ids + n, most, #ids + (room[route] or n))
  while #ids < n and gone < 256 do
    local entries = redis.pcall('ZPOPMIN', KEYS[9] .. route, n - #ids)
    broken = entries.err or #entries == 0
    if broken then break end
    for i = 1, #entries, 2 do
      local id = idOf(entries[i])
      if redis.pcall('HGET', ARGV[2] .. id, 'parked') == parkedAs(route, entries[i]) and redis.call('ZREM', KEYS[5], id) == 1 then
        take(id, true)
      else
        gone = gone + 1
      end
    end
  end
  if broken or redis.call('EXISTS', KEYS[9] .. route) == 0 then
    redis.call('SREM', KEYS[8], route)
    parked[route] = nil
  end
end
if bounded then -- half of what is taken, so that others do not stand behind all that is parked
  local some = redis.call('SRANDMEMBER', KEYS[8], math.ceil(most / 2))
  for _, route in ipairs(some) do unpark(route, math.ceil(most / 2 / #some)) end
end
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local function forward(id) -- to the head of the queue
  local key = ARGV[2] .. id
  if redis.pcall('HEXISTS', key, 'parked') == 1 or redis.call('ZREM', KEYS[5], id) + redis.call('ZREM', KEYS[13], id) == 0 then return end
  redis.call('RPUSH', KEYS[1], id)
  redis.pcall('HSET', key, 'state', 'pending', 'pending_since', string.format('%.0f000', now))
end
-- at most half of what is left: the other half is for those that have not waited
local due = redis.call('ZRANGEBYSCORE', KEYS[14], '-inf', string.format('%.0f', now), 'LIMIT', 0, math.ceil((most - #ids) / 2))
if #due > 0 then redis.call('ZREM', KEYS[14], unpack(due)) end
for i = #due, 1, -1 do forward(due[i]) end
local looked = 0
while #ids < most and looked < 256 do
  local popped = redis.call('RPOP', KEYS[1], most - #ids)
  if not popped then
    answer[1] = 1
    local next = redis.call('ZRANGE', KEYS[14], 0, 0, 'WITHSCORES')[2]
    if next then answer[4] = math.max(0, math.ceil(next - now)) end
    if ARGV[5] ~= '' then
      redis.pcall('SADD', KEYS[7], ARGV[5])
      redis.pcall('EXPIRE', KEYS[7], ARGV[6])
    end
    break
  end
  looked = looked + #popped
  for _, id in ipairs(popped) do take(id) end
end
if bounded then
  if #back > 0 then redis.call('ZADD', KEYS[5], unpack(back)) end
  for route in pairs(parked) do unpark(route, most) end
  for route in pairs(parked) do table.insert(answer[3], route) end
end
if #ids > 0 then
  redis.call('LPUSH', KEYS[3], unpack(ids))
  redis.call('ZADD', KEYS[4], unpack(leases))
end
if several then answer[2] = follow() end
return answer
`)

// A pulled job is active on the queue, and in nobody's hands yet.
type pulled struct {
	Job
	message string
	at      time.Time
	lease   any    // its end, in s
	follows string // the job before it of the same user and category, that another worker has; "" for none
	route   string // the only one that it is for; "" for none
}

// dequeue takes the place of dequeueCmd: it hands out one job of several that are
// pulled at once, asks nothing of a queue that was found empty, and waits for a word
// when all are.
func (c *client) dequeue(ctx context.Context, keys []string, args []any) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	queue := c.shard.QueueOf(keys[0])
	if !c.mayPull() {
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
	if job == nil && err == nil && !c.more() {
		c.idle.wait(c.ending, c.parks())
		if c.mayPull() && !c.config.Hands.full(queue) {
			job, err = c.handOut(ctx, queue, keys, args)
		}
	}
	switch {
	case err != nil:
		c.idle.ask(queue, 0)
		_ = clock.Sleep(c.ending, failedPause) // asynq asks again at once
		cmd.SetErr(err)
	case job == nil:
		cmd.SetErr(redis.Nil)
	default:
		cmd.SetVal(job.message)
	}
	return cmd
}

// mayPull reports whether jobs may be taken in hand: what is sent can be recorded, and no other
// worker takes this one for dead.
func (c *client) mayPull() bool {
	return !c.refusals.recording() && c.ending.Err() == nil && c.life.term.Load().Sure()
}

// handOut takes the next job of the queue in hand, nil for none. asynq asks for one job
// after another, so that they are taken in hand in their order.
func (c *client) handOut(ctx context.Context, queue string, keys []string, args []any) (job *pulled, err error) {
	if job = c.next(ctx, queue); job == nil && (c.unparks(queue) || c.idle.claim(queue)) {
		if c.strays.due() && !c.failed.Load() {
			c.reclaim()
		}
		job, err = c.pull(ctx, queue, keys, args)
		c.failed.Store(err != nil)
		c.strays.suspect(err)
		c.refusals.pulled(queue, err)
	}
	if job != nil {
		job.Begin = sync.OnceFunc(func() { c.config.Hands.begun(queue, job.route) })
		c.works.note(job.ID, handed{c.worked(job, c.workOf(job.Job)), job.Begin})
	}
	return job, err
}

// A handed job is handed out, and nothing is done about it yet.
type handed struct {
	work  Work
	begin func() // the job's, to be called also where it is not to be worked off
}

// worked returns the work on the job, which begins in its turn. It is lost when another
// worker may have the job.
func (c *client) worked(p *pulled, work Work) Work {
	term, queue, follows := p.Term, p.Queue, p.follows
	return func(ctx context.Context) error {
		if follows != "" {
			c.follow(ctx, queue, follows, term.id)
		}
		err := work(ctx)
		if err != nil && term.Lost(ctx) {
			return ErrLost
		}
		return err
	}
}

// followFor is how long a job waits at most for the one before it: a provider may take long
// over that, or its worker may have crashed. It is less than those behind the job in its own
// process wait for their turns.
const followFor = 900 * time.Millisecond

// follow waits until no other worker than that has the job in hand, for followFor at most.
func (c *client) follow(ctx context.Context, queue, id, worker string) {
	ctx, cancel := context.WithTimeout(ctx, followFor)
	defer cancel()
	for after := 2 * time.Millisecond; clock.Sleep(ctx, after) == nil; after = min(2*after, 50*time.Millisecond) {
		of, err := c.HMGet(ctx, c.shard.QueueKey(queue, "t:"+id), "state", "worker").Result()
		if err != nil || of[0] != "active" || of[1] == worker {
			return
		}
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

// parkPause is for how long a queue is not asked of which much was parked.
const parkPause = 20 * time.Millisecond

// pull takes jobs from the queue, hands out the first and keeps the others. It
// returns nil when there is none, or many that are parked come before it.
func (c *client) pull(ctx context.Context, queue string, keys []string, args []any) (*pulled, error) {
	for range parkRounds {
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
	c.idle.ask(queue, parkPause)
	return nil, nil
}

// take takes jobs from the queue, and reports whether it is empty then.
func (c *client) take(ctx context.Context, queue string, keys []string, args []any) (jobs []pulled, empty bool, err error) {
	most := prefetched
	if c.failed.Load() {
		most = 1 // what a lost answer holds is nobody's until its lease is over
	}
	lease, term := args[0], c.life.term.Load()
	bounds := c.config.Hands.reserve(queue, c.config.Bounds(queue, time.Now()))
	defer func() { c.config.Hands.pulled(queue, bounds, jobs) }()
	args = []any{lease, args[1], most, store.MaxEnvelopeSize, c.idle.entered(), int(max(1, idlePolls*c.idle.poll/time.Second)), remembered, term.id, time.Now().Add(parkedFor).Unix()}
	stuck := 0
	for _, b := range bounds {
		args = append(args, b.Route, b.Room)
		stuck += b.InHand
	}
	keys = slices.Concat(keys, []string{
		c.shard.QueueKey(queue, "retry"), c.shard.QueueKey(queue, "room"), c.shard.IdleKey(queue), c.shard.QueueKey(queue, "parked"), c.shard.QueueKey(queue, "parked:"),
		c.workersKey(), c.shard.QueueKey(queue, "latest"), c.shard.QueueKey(queue, "latest:older"),
		c.shard.QueueKey(queue, "scheduled"), c.shard.QueueKey(queue, "due"),
	})
	reply, err := pullScript.Run(ctx, c.UniversalClient, keys, args...).Slice()
	if err != nil {
		return nil, false, err
	}
	if left, _ := reply[3].(int64); left >= 0 {
		c.idle.dueIn(queue, time.Duration(left)*time.Microsecond)
	}
	jobs, _ = c.read(ctx, queue, reply[4:]) // what is not set aside yet is found again
	c.strays.hold(jobs)
	c.mu.Lock()
	c.stuck[queue], c.parked[queue] = stuck, texts(reply[2])
	parked := c.parked[queue]
	c.mu.Unlock()
	if len(parked) > 0 {
		c.config.Parked(parked)
	}
	before, now := texts(reply[1]), time.Now()
	for i := range jobs {
		jobs[i].at, jobs[i].lease, jobs[i].Term = now, lease, term
		jobs[i].route = push.OnlyRoute(jobs[i].Payload)
		if at := slices.Index(before, jobs[i].ID); at >= 0 && at%2 == 0 && jobs[i].Back.IsZero() { // else it has had its turn
			jobs[i].follows = before[at+1]
		}
	}
	return jobs, reply[0] == int64(1), nil
}

// texts are those of a list that Redis has answered.
func texts(list any) (all []string) {
	some, _ := list.([]any)
	for _, one := range some {
		if text, ok := one.(string); ok {
			all = append(all, text)
		}
	}
	return all
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
var putBackScript = redis.NewScript(store.WakeIdle + ownedBy("KEYS[4]", "ARGV[3]") + `
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
		c.config.Hands.begun(queue, job.route)
		keys := []string{c.shard.QueueKey(queue, "active"), c.shard.QueueKey(queue, "lease"), c.shard.QueueKey(queue, "pending"), c.shard.QueueKey(queue, "t:"+job.ID), c.shard.IdleKey(queue)}
		err := putBackScript.Run(ctx, c.alone, keys, job.ID, job.lease, job.Term.id).Err()
		if c.strays.drop(job.ID); err != nil && !redisreply.NotFound(err) {
			c.strays.suspect(err)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
