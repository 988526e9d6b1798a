package push

import (
	"context"
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
	keys = append(make([]string, 0, 3+3*len(s.all)), QueueKey(queue, "pending"), QueueKey(queue, "scheduled"), IdleKey(queue))
	args = append(make([]any, 0, 1+9*len(s.all)), queue)
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
	case len(s.all) == 1 || !ofOne(err):
		return nil, err
	}
	pipe := s.client.Pipeline()
	cmds := make([]*redis.Cmd, len(s.all))
	for i, a := range s.all {
		cmds[i] = (&acceptances{s.client, []*acceptance{a}}).Command(ctx)
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

// ofOne reports whether Redis refuses something that may be about the keys of one
// notification alone: the type of one, or what is in it.
func ofOne(err error) bool {
	return redis.HasErrorPrefix(err, "WRONGTYPE") || redis.HasErrorPrefix(err, "ERR")
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

// EvalSha runs enqueueScript in the place of asynq's own for what a Producer accepts
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
	var due any = 0
	switch sha {
	case EnqueueHash:
	case ScheduleHash: // its arguments are the message, the instant, the ID
		args, due = []any{args[0], args[2], time.Now().UnixNano()}, args[1]
	default:
		a.err = UnknownScript(sha)
		return redis.NewCmdResult(nil, a.err)
	}
	id, _ := args[1].(string)
	tag := e.records.tag(shardOf(id))
	a.keys = []string{keys[0], tag + "id:" + id, tag + "counts"}
	a.args = append(append(append(make([]any, 0, 11), args...), due, len(a.facts)), a.facts...)
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

// inOneStep enqueues a new notification. a then has the state of the record that stood
// there, if any; accepting is for the other way to go on from.
func (p *Producer) inOneStep(ctx context.Context, n *Notification, payload []byte, a *acceptance) error {
	_, err := p.put(context.WithValue(ctx, acceptanceKey{}, a), n.ID, a.queue, payload, n.NotBefore)
	if err == nil && !a.asked {
		a.err = OtherAsynq("runs neither enqueueCmd nor scheduleCmd")
	}
	if a.err != nil {
		return fmt.Errorf("enqueue: %w", a.err)
	}
	return err
}
