package push

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// On one Redis the record of a notification changes in the same step as asynq's
// queue: asynq's own scripts for enqueueing, and for a job that is done (see
// done.go), are run with the record's part before them. On a Cluster the two lie
// on different nodes, and each takes its own step.

// enqueueScript is asynq's enqueueCmd behind what accept and confirm do.
//
// KEYS  asynq's task and pending list; the queue's idle workers; record, counts
// ARGV  asynq's message, ID and instant (ns); queue, then facts
//
// It returns what asynq's does for a job that is new, 1; else 0, the state that the
// record had, and 1 if that is of another content.
var enqueueScript = redis.NewScript(ofAnotherContent + WakeIdle + `
local state = redis.call('HGET', KEYS[4], 'state')
if state then
  if redis.call('HGET', KEYS[1], 'pending_since') == ARGV[3] then return 1 end -- a reply was lost
  return {0, state, ofAnotherContent(KEYS[4], ARGV[6])}
end
if redis.call('EXISTS', KEYS[1]) == 1 then return {0, 'waiting', 0} end
redis.call('LPUSH', KEYS[2], ARGV[2]) -- it and the next may be refused: then nothing is done
local counted = redis.pcall('HINCRBY', KEYS[5], 'accepted', 1)
if type(counted) == 'table' then
  redis.call('LPOP', KEYS[2])
  return counted
end
redis.call('HSET', KEYS[4], 'state', 'waiting', 'queue', ARGV[4], 'accepted', string.sub(ARGV[3], 1, -7), unpack(ARGV, 5))
redis.call('HSET', KEYS[1], 'msg', ARGV[1], 'state', 'pending', 'pending_since', ARGV[3])
wake(KEYS[3])
return 1
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

	// Where pipe is not nil, the command is left there, for read to look at its
	// answer once the pipe was executed. index is the notification's in the batch.
	pipe  redis.Pipeliner
	cmd   *redis.Cmd
	index int
}

// read reads enqueueScript's reply.
func (a *acceptance) read(cmd *redis.Cmd) error {
	reply, err := cmd.Result()
	if err != nil {
		a.err = err
		return err
	}
	if known, there := reply.([]any); there {
		state, _ := known[1].(string)
		a.state, a.conflict = State(state), known[2] == int64(1)
	}
	return nil
}

type acceptanceKey struct{}

// An enqueuer is the client of a Producer's asynq client.
type enqueuer struct {
	redis.UniversalClient
	records *Records
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
	keys = append(keys, IdleKey(a.queue), tag+"id:"+id, tag+"counts")
	args = append(append(append(make([]any, 0, 12), args...), a.queue), a.facts...)
	if a.pipe != nil {
		a.cmd = a.pipe.EvalSha(ctx, enqueueScript.Hash(), keys, args...)
		return redis.NewCmdResult(int64(1), nil)
	}
	cmd := enqueueScript.Run(ctx, e.UniversalClient, keys, args...)
	if a.read(cmd) == nil && a.state != "" {
		return redis.NewCmdResult(int64(0), nil)
	}
	return cmd
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
