package push

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/pipeline"
)

// On one Redis the record of a notification changes in the same step as asynq's
// queue: asynq's own scripts for enqueueing, and for a job that is done (see
// done.go), are run with the record's part before them. On a Cluster the two lie
// on different nodes, and each takes its own step.

// enqueueScript is asynq's enqueueCmd for several jobs of a queue, behind what accept
// and confirm do. What may be refused comes first: then nothing is done.
//
// KEYS  asynq's pending list; the queue's idle workers; of each asynq's task, record, counts
// ARGV  queue; of each asynq's message, ID and instant (ns), how many facts, these
//
// It returns of each what asynq's does for a job that is new, 1; else the state that
// the record had, and 1 if that is of another content.
var enqueueScript = redis.NewScript(ofAnotherContent + `
local replies, new, jobs, ids, counted, at = {}, {}, {}, {}, {}, 2
local function known(task, record, instant, of)
  if new[record] then return {'waiting', new[record] == of and 0 or 1} end
  local state = redis.pcall('HGET', record, 'state')
  if type(state) == 'table' then return state end
  if not state then return {'waiting', 0} end
  if redis.call('HGET', task, 'pending_since') == instant then return 1 end -- a reply was lost
  return {state, ofAnotherContent(record, of)}
end
for k = 3, #KEYS, 3 do
  local task, record, counts = KEYS[k], KEYS[k + 1], KEYS[k + 2]
  local instant, last = ARGV[at + 2], at + 3 + ARGV[at + 3]
  if new[record] or redis.call('EXISTS', task, record) > 0 then
    replies[#replies + 1] = known(task, record, instant, ARGV[at + 5])
  else
    replies[#replies + 1], new[record], ids[#ids + 1] = 1, ARGV[at + 5], ARGV[at + 1]
    counted[counts] = (counted[counts] or 0) + 1
    jobs[#ids] = {k, at, last}
  end
  at = last + 1
end
if #ids == 0 then return replies end
redis.call('LPUSH', KEYS[1], unpack(ids))
for counts, n in pairs(counted) do
  local refused = redis.pcall('HINCRBY', counts, 'accepted', n)
  if type(refused) == 'table' then
    for other, n in pairs(counted) do
      if other == counts then break end
      redis.call('HINCRBY', other, 'accepted', -n)
    end
    redis.call('LPOP', KEYS[1], #ids)
    return refused
  end
end
for i = 1, #ids do
  local k, at, last = unpack(jobs[i])
  local instant = ARGV[at + 2]
  redis.call('HSET', KEYS[k + 1], 'state', 'waiting', 'queue', ARGV[1], 'accepted', string.sub(instant, 1, -7), unpack(ARGV, at + 4, last))
  redis.call('HSET', KEYS[k], 'msg', ARGV[at], 'state', 'pending', 'pending_since', instant)
end
local idle = redis.pcall('SPOP', KEYS[2], #ids)
for i = 1, #idle do redis.pcall('PUBLISH', idle[i], KEYS[2]) end
return replies
`)

// enqueueAlone is asynq's enqueueCmd, which wakes an idle worker.
//
// KEYS  asynq's task and pending list; the queue's idle workers
// ARGV  asynq's message, ID and instant (ns)
var enqueueAlone = redis.NewScript(WakeIdle + `
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'msg', ARGV[1], 'state', 'pending', 'pending_since', ARGV[3])
redis.call('LPUSH', KEYS[2], ARGV[2])
wake(KEYS[3])
return 1
`)

// An acceptance is one notification on its way through asynq's client.
type acceptance struct {
	queue    string
	facts    []any
	asked    bool  // asynq has run its script
	state    State // that its record had
	conflict bool  // that is of another content
	err      error // Redis's own, which asynq's would not wrap

	// One of EnqueueAll stays away from Redis: asynq's script is not run for it, and
	// these are what enqueueScript takes for it.
	together bool
	keys     []string
	args     []any
	index    int // of the notification
}

// acceptances are of one queue, and share a command.
type acceptances struct {
	client redis.UniversalClient
	all    []*acceptance
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
	queue := s.all[0].queue
	keys = append(make([]string, 0, 2+3*len(s.all)), QueueKey(queue, "pending"), IdleKey(queue))
	args = append(make([]any, 0, 1+8*len(s.all)), queue)
	for _, a := range s.all {
		keys, args = append(keys, a.keys...), append(args, a.args...)
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
	case len(s.all) == 1 || !errors.As(err, new(redis.Error)):
		return nil, err
	}
	for i, a := range s.all {
		alone := &acceptances{s.client, []*acceptance{a}}
		cmd := alone.Command(ctx)
		_ = s.client.Process(ctx, cmd) // the error is the command's
		if _, err := alone.Read(ctx, cmd); err != nil {
			errs[i] = err
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

type acceptanceKey struct{}

// An enqueuer is the client of a Producer's asynq client.
type enqueuer struct {
	redis.UniversalClient
	records *Records
	batches *pipeline.Batches[*acceptances]
}

// EvalSha runs enqueueScript in the place of asynq's own for what Enqueue accepts
// in one step, enqueueAlone for what else is due, and passes everything else on.
// Another script of asynq's would put a job on the queue that has no record.
func (e *enqueuer) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	a, ours := ctx.Value(acceptanceKey{}).(*acceptance)
	if !ours && sha == EnqueueHash {
		return enqueueAlone.Run(ctx, e.UniversalClient, append(keys, strings.TrimSuffix(keys[1], "pending")+"idle"), args...)
	}
	if !ours {
		return e.UniversalClient.EvalSha(ctx, sha, keys, args...)
	}
	a.asked = true
	if sha != EnqueueHash {
		a.err = UnknownScript(sha)
		return redis.NewCmdResult(nil, a.err)
	}
	id, _ := args[1].(string)
	tag := e.records.tag(shardOf(id))
	a.keys = []string{keys[0], tag + "id:" + id, tag + "counts"}
	a.args = append(append(append(make([]any, 0, 10), args...), len(a.facts)), a.facts...)
	if a.together {
		return redis.NewCmdResult(int64(1), nil)
	}
	a.err = e.batches.Do(ctx, a.queue,
		func() *acceptances { return &acceptances{client: e.UniversalClient} },
		func(s *acceptances) { s.all = append(s.all, a) })
	switch {
	case a.err != nil:
		return redis.NewCmdResult(nil, a.err)
	case a.state != "":
		return redis.NewCmdResult(int64(0), nil)
	default:
		return redis.NewCmdResult(int64(1), nil)
	}
}

// OneRedis reports whether all keys of the client are on one server.
func OneRedis(client redis.UniversalClient) bool {
	_, cluster := client.(*redis.ClusterClient)
	return !cluster
}

// inOneStep enqueues a new notification that is due. a then has the state of the
// record that stood there, if any; accepting is for the other way to go on from.
func (p *Producer) inOneStep(ctx context.Context, id string, payload []byte, a *acceptance) error {
	_, err := p.put(context.WithValue(ctx, acceptanceKey{}, a), id, a.queue, payload, time.Time{})
	if err == nil && !a.asked {
		a.err = OtherAsynq("does not run enqueueCmd")
	}
	if a.err != nil {
		return fmt.Errorf("enqueue: %w", a.err)
	}
	return err
}
