// Package queue is all that pushpace knows of asynq: nothing else imports it.
//
// A Server pulls jobs by one of asynq's servers and hands them to a Handler,
// which ends a job by returning nil, and brings it back by returning a Return.
// asynq is used by its public interface but for one seam: its server is given a
// Redis client of our own, which takes the place of some of its Lua scripts (see
// scripts.go). The invariants:
//
//   - A script is recognised by the hash of its text. Check refuses, before anything
//     starts, an asynq that runs another one. contract_test.go lists what to compare.
//   - A job is in exactly one of asynq's lists and sets, whatever is interrupted.
//   - What takes a job out of hand is insisted on; what brings it back happens once.
//   - What asynq could not read, or would lose, is set aside as a dead letter.
//   - An idle worker waits for a word that a job is due, which may be lost, and polls.
package queue

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/repeats"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// The hashes of the scripts of store.Version that are taken the place of, or
// relied upon to do what their text says.
const (
	dequeueHash = "a8153319360adc71cdc370107f8ab9786f204765" // pullScript, in pull.go
	doneHash    = "1241eaa1c73409baaf1fea0c08d203a4911bda15" // store.Dones, where it settles too, or endScript, in replaced.go
	retryHash   = "65fa409c88198a681c53e0892d8276eca0145694" // returnScript, in replaced.go, insisted on
	requeueHash = "f34cbfd11d1fc8019af55b50c447fc68eb8b29e5" // cutOffScript, in replaced.go
	forwardHash = "522b1a6ae66fe79ea2f24a9af58798ab71879035" // forwardScript, there too
	leasesHash  = "16988a462595f6ee317be300951533b004f27f5c" // overScript, there too
)

// scripts are the names of the scripts that asynq's server may run, by their
// hashes. No job of ours is unique, is kept when it is done, or is archived: the
// scripts for these are not among them, and the lease brings such a job back.
var scripts = map[string]string{
	dequeueHash: "dequeueCmd", doneHash: "doneCmd", retryHash: "retryCmd", requeueHash: "requeueCmd",
	forwardHash: "forwardCmd", leasesHash: "listLeaseExpiredCmd",
	// for no jobs of ours
	"7c08714194a1ed81153180b36590c51f1ccd7d42": "reclaimStateAggregationSetsCmd",
	"49c4326d80c1db9c476da2aa7f4438d03688f82b": "deleteExpiredCompletedTasksCmd",
	"3c8548ad44d0dfcfde50f07ea9271d77f656042c": "writeServerStateCmd",
	"79cf8dbc80deca37314fdfdeb9fe33a12c9baad7": "clearServerStateCmd",
}

// Check has asynq work off three jobs without a Redis, and returns an error when it
// runs a script that is not known, or not one that is replaced: by such an asynq
// jobs would be lost, or sent twice.
var Check = sync.OnceValue(func() error {
	known := maps.Clone(scripts)
	known[store.EnqueueHash], known[store.ScheduleHash] = "enqueueCmd", "scheduleCmd"
	return check(known)
})

func check(known map[string]string) error {
	over, end := context.WithTimeout(context.Background(), 10*time.Second) // on a machine that is busy
	defer end()
	client := redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, errRehearsal },
	})
	defer client.Close()
	r := &rehearsal{
		known: known, end: end, left: 3,
		missing: []string{"enqueueCmd", "scheduleCmd", "dequeueCmd", "doneCmd", "retryCmd", "forwardCmd", "listLeaseExpiredCmd", "requeueCmd"},
	}
	client.AddHook(r)
	queue := push.Default.Queue()
	tasks := asynq.NewClientFromRedisClient(client)
	_, err := tasks.Enqueue(asynq.NewTask(store.TaskType, nil), asynq.Queue(queue))
	if err == nil {
		_, err = tasks.Enqueue(asynq.NewTask(store.TaskType, nil), asynq.Queue(queue), asynq.ProcessIn(time.Hour))
	}
	if r.unknown != "" || err != nil {
		return cmp.Or(r.verdict(), err)
	}
	server := asynq.NewServerFromRedisClient(client, asynq.Config{
		Concurrency: 1, Queues: map[string]int{queue: 1}, TaskCheckInterval: time.Millisecond, DelayedTaskCheckInterval: time.Millisecond,
		ShutdownTimeout: time.Millisecond, Logger: asynqLog{slog.New(slog.DiscardHandler), new(repeats.Log)},
	})
	runs := 0
	if err := server.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		switch runs++; runs {
		case 1:
			return nil // it is done
		case 2:
			return errRehearsal // it is retried
		}
		<-ctx.Done() // it is requeued
		return nil
	})); err != nil {
		return err
	}
	<-over.Done()
	server.Shutdown()
	return r.verdict()
}

var errRehearsal = errors.New("there is no Redis")

// A rehearsal is a client's hook that answers asynq's commands in the place of a
// Redis that has three jobs.
type rehearsal struct {
	known map[string]string // scripts by their hashes
	end   func()            // is called when the last job is in hand and the others' scripts have run, or another script has

	mu      sync.Mutex
	message any      // of the job that was enqueued
	left    int      // how often it is to be handed out
	missing []string // scripts that have not run
	unknown string   // hash of another script
}

func (r *rehearsal) verdict() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unknown != "" {
		return store.UnknownScript(r.unknown)
	}
	if len(r.missing) > 0 {
		return store.OtherAsynq("does not run " + r.missing[0])
	}
	return nil
}

// run is a script's reply.
func (r *rehearsal) run(hash string, args []any) (any, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name, known := r.known[hash]
	if !known {
		r.unknown = hash
	}
	r.missing = slices.DeleteFunc(r.missing, func(missing string) bool { return missing == name })
	var reply any = int64(0)
	switch name {
	case "enqueueCmd":
		r.message, reply = args[0], int64(1)
	case "scheduleCmd":
		reply = int64(1)
	case "dequeueCmd":
		if r.left == 0 {
			return nil, redis.Nil
		}
		r.left, reply = r.left-1, r.message
	case "listLeaseExpiredCmd":
		reply = []any{}
	}
	if !known || r.left == 0 && len(r.missing) == 1 {
		r.end()
	}
	return reply, nil
}

// ProcessHook implements redis.Hook.
func (r *rehearsal) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		script, ok := cmd.(*redis.Cmd)
		if !ok {
			return nil
		}
		args := cmd.Args() // EVALSHA, its hash, how many keys, keys, arguments
		hash, _ := args[1].(string)
		keys, _ := args[2].(int)
		reply, err := r.run(hash, args[3+keys:])
		script.SetVal(reply)
		script.SetErr(err)
		return err
	}
}

// DialHook implements redis.Hook.
func (*rehearsal) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (*rehearsal) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { return nil }
}
