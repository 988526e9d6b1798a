package push

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/asynqwire"
	"github.com/pushpace/pushpace/internal/pipeline"
	"github.com/pushpace/pushpace/internal/redisreply"
)

// On one Redis the record of a notification changes in the same step as asynq's
// queue: asynq's own scripts for enqueueing, and for a job that is done (see
// done.go), are run with the record's part before them. On a Cluster the two lie
// on different nodes, and each takes its own step.

// enqueueScript is asynq's enqueueCmd, or scheduleCmd, for several jobs of a queue,
// behind what accept and confirm do. What may be refused comes first: then nothing is
// done.
//
// KEYS  asynq's pending list and scheduled set; the queue's idle workers; of each
// asynq's task, record, counts
// ARGV  queue; of each asynq's message and ID, now (ns), when it is due (s), 0 for now,
// how many facts, these
//
// It returns of each what asynq's does for a job that is new, 1; else the state that
// the record had, and 1 if that is of another content.
var enqueueScript = redis.NewScript(ofAnotherContent + `
local replies, new, jobs, ids, later, dues, counted, at = {}, {}, {}, {}, {}, {}, {}, 2
local function known(task, record, message, of)
  if new[record] then return {'waiting', new[record] == of and 0 or 1} end
  local state = redis.pcall('HGET', record, 'state')
  if type(state) == 'table' then return state end
  if not state then return {'waiting', 0} end
  if redis.call('HGET', task, 'msg') == message then return 1 end -- a reply was lost
  return {state, ofAnotherContent(record, of)}
end
for k = 4, #KEYS, 3 do
  local task, record, counts = KEYS[k], KEYS[k + 1], KEYS[k + 2]
  local id, due, last = ARGV[at + 1], ARGV[at + 3], at + 4 + ARGV[at + 4]
  if new[record] or redis.call('EXISTS', task, record) > 0 then
    replies[#replies + 1] = known(task, record, ARGV[at], ARGV[at + 6])
  else
    replies[#replies + 1], new[record], jobs[#jobs + 1] = 1, ARGV[at + 6], {k, at, last}
    counted[counts] = (counted[counts] or 0) + 1
    if due == '0' then
      ids[#ids + 1] = id
    else
      later[#later + 1], dues[#dues + 1], dues[#dues + 2] = id, due, id
    end
  end
  at = last + 1
end
if #jobs == 0 then return replies end
local done = {} -- what takes it back
local function refused(back, ...)
  local reply = redis.pcall(...)
  if type(reply) ~= 'table' then done[#done + 1] = back return end
  for i = 1, #done do redis.call(unpack(done[i])) end
  return reply
end
local problem = #ids > 0 and refused({'LPOP', KEYS[1], #ids}, 'LPUSH', KEYS[1], unpack(ids))
  or #later > 0 and refused({'ZREM', KEYS[2], unpack(later)}, 'ZADD', KEYS[2], unpack(dues))
if problem then return problem end
for counts, n in pairs(counted) do
  problem = refused({'HINCRBY', counts, 'accepted', -n}, 'HINCRBY', counts, 'accepted', n)
  if problem then return problem end
end
for i = 1, #jobs do
  local k, at, last = unpack(jobs[i])
  local instant = ARGV[at + 2]
  redis.call('HSET', KEYS[k + 1], 'state', 'waiting', 'queue', ARGV[1], 'accepted', string.sub(instant, 1, -7), unpack(ARGV, at + 5, last))
  if ARGV[at + 3] == '0' then
    redis.call('HSET', KEYS[k], 'msg', ARGV[at], 'state', 'pending', 'pending_since', instant)
  else
    redis.call('HSET', KEYS[k], 'msg', ARGV[at], 'state', 'scheduled')
  end
end
local idle = redis.pcall('SPOP', KEYS[3], #ids)
for i = 1, #idle do redis.pcall('PUBLISH', idle[i], KEYS[3]) end
return replies
`)

// enqueueAlone is asynq's enqueueCmd, which wakes an idle worker.
//
// KEYS  asynq's task and pending list; the queue's idle workers
// ARGV  asynq's message, ID and instant (ns)
var enqueueAlone = redis.NewScript(asynqwire.WakeIdle + `
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'msg', ARGV[1], 'state', 'pending', 'pending_since', ARGV[3])
redis.call('LPUSH', KEYS[2], ARGV[2])
wake(KEYS[3])
return 1
`)

// An acceptance is one new notification on its way to the queue.
type acceptance struct {
	id, queue string
	message   []byte    // asynq's, for one step
	notBefore time.Time // zero for one that is due
	facts     []any

	state    State // that its record had
	conflict bool  // that is of another content
	err      error

	index int // of the notification, for EnqueueAll
}

// acceptances are of one queue, and share a command.
type acceptances struct {
	*oneStep
	all []*acceptance
}

// acceptancesMost bounds how many: it holds Redis up for about a millisecond.
const acceptancesMost = 100

// Len implements pipeline.Batch.
func (s *acceptances) Len() int { return len(s.all) }

// Command implements pipeline.Batch.
func (s *acceptances) Command(ctx context.Context) *redis.Cmd {
	keys, args := s.call()
	return enqueueScript.EvalSha(ctx, s.client.Pipeline(), keys, args...) // of a pipeline that is not sent
}

// call is what enqueueScript is called with.
func (s *acceptances) call() (keys []string, args []any) {
	queue, now := s.all[0].queue, time.Now()
	keys = append(make([]string, 0, 3+3*len(s.all)), asynqwire.QueueKey(queue, "pending"), asynqwire.QueueKey(queue, "scheduled"), asynqwire.IdleKey(queue))
	args = append(make([]any, 0, 1+7*len(s.all)), queue)
	task, instant := asynqwire.QueueKey(queue, "t:"), any(now.UnixNano())
	for _, a := range s.all {
		due := int64(0)
		if a.notBefore.After(now) {
			due = a.notBefore.Unix()
		}
		tag := s.records.tag(shardOf(a.id))
		keys = append(keys, task+a.id, tag+"id:"+a.id, tag+"counts")
		args = append(append(args, a.message, a.id, instant, due, len(a.facts)), a.facts...)
	}
	return keys, args
}

// Read implements pipeline.Batch. What Redis refuses may be one's own trouble, and is
// asked again of each alone.
func (s *acceptances) Read(ctx context.Context, cmd *redis.Cmd) ([]error, error) {
	if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		keys, args := s.call()
		cmd = enqueueScript.Eval(ctx, s.client, keys, args...)
	}
	replies, err := cmd.Slice()
	errs := make([]error, len(s.all))
	switch {
	case err == nil && len(replies) != len(s.all):
		return nil, fmt.Errorf("%d notifications are accepted, and %d answered for", len(s.all), len(replies))
	case err == nil:
		for i, a := range s.all {
			errs[i] = a.read(replies[i])
		}
		return errs, nil
	case len(s.all) == 1 || !redisreply.OfItsKeys(err):
		return nil, err
	}
	pipe := s.client.Pipeline()
	cmds := make([]*redis.Cmd, len(s.all))
	for i, a := range s.all {
		cmds[i] = (&acceptances{s.oneStep, []*acceptance{a}}).Command(ctx)
		_ = pipe.Process(ctx, cmds[i]) // which keeps it
	}
	_, _ = pipeline.Exec(ctx, pipe) // each command has its own error
	for i, a := range s.all {
		replies, err := cmds[i].Slice()
		if errs[i] = err; err == nil {
			errs[i] = a.read(replies[0])
		}
	}
	return errs, nil
}

// read reads enqueueScript's reply of the notification.
func (a *acceptance) read(reply any) error {
	switch known := reply.(type) {
	case error:
		return known
	case []any:
		state, _ := known[0].(string)
		a.state, a.conflict = State(state), known[1] == int64(1)
	}
	return nil
}

// oneStep makes a notification's record and its job in one step, which is on one Redis.
type oneStep struct {
	client    redis.UniversalClient
	records   *Records
	batches   *pipeline.Batches[*acceptances]
	announced sync.Map // the queues that asynq knows of
}

func newOneStep(client redis.UniversalClient, records *Records) *oneStep {
	return &oneStep{client: client, records: records, batches: pipeline.NewBatches[*acceptances](client, acceptancesMost)}
}

// announce tells asynq of a queue, as its client does: servers and inspectors look there.
func (o *oneStep) announce(ctx context.Context, queue string) error {
	if _, known := o.announced.Load(queue); known {
		return nil
	}
	if err := o.client.SAdd(ctx, asynqwire.QueuesKey, queue).Err(); err != nil {
		return err
	}
	o.announced.Store(queue, true)
	return nil
}

// enqueue enqueues a new notification. It then has the state of the record that stood
// there, if any; accepting is for the other way to go on from.
func (o *oneStep) enqueue(ctx context.Context, a *acceptance) error {
	if err := o.announce(ctx, a.queue); err != nil {
		return err
	}
	return o.batches.Do(ctx, a.queue,
		func() *acceptances { return &acceptances{oneStep: o} },
		func(s *acceptances) { s.all = append(s.all, a) })
}

// acceptance returns a job's way to the queue, and the job as it travels.
func (p *Producer) acceptance(ctx context.Context, job *Job) (*acceptance, []byte, error) {
	payload, facts, err := encodeNew(job)
	if err != nil {
		return nil, nil, err
	}
	n := job.Notification
	a := &acceptance{id: n.ID, queue: n.Priority.Queue(), notBefore: n.NotBefore, facts: facts}
	if p.oneStep != nil { // else asynq writes it
		var headers map[string]string
		if p.headers != nil {
			headers = p.headers(ctx)
		}
		a.message = asynqwire.Message(a.id, a.queue, payload, headers)
	}
	return a, payload, nil
}

// An enqueuer is the client of a Producer's asynq client, for what it enqueues by more
// steps than one: it runs enqueueAlone for what is due.
type enqueuer struct{ redis.UniversalClient }

// EvalSha implements redis.Scripter.
func (e *enqueuer) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	if sha == asynqwire.EnqueueHash {
		return enqueueAlone.Run(ctx, e.UniversalClient, append(keys, strings.TrimSuffix(keys[1], "pending")+"idle"), args...)
	}
	return e.UniversalClient.EvalSha(ctx, sha, keys, args...)
}

// OneRedis reports whether all keys of the client are on one server.
func OneRedis(client redis.UniversalClient) bool {
	_, cluster := client.(*redis.ClusterClient)
	return !cluster
}
