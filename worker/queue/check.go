package queue

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/push"
)

// Check has asynq work off three jobs without a Redis, and returns an error when it
// runs a script that is not known, or not one that is replaced: by such an asynq
// jobs would be lost, or sent twice.
var Check = sync.OnceValue(func() error {
	known := maps.Clone(scripts)
	known[push.EnqueueHash] = "enqueueCmd"
	return check(known)
})

func check(known map[string]string) error {
	const patience = 10 * time.Second // on a machine that is busy
	nowhere := redis.NewClient(&redis.Options{
		MaxRetries: -1, DisableIdentity: true,
		Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, errRehearsal },
	})
	defer nowhere.Close()
	r := &rehearsal{known: known, ran: map[string]bool{}, changed: make(chan struct{}, 1)}
	nowhere.AddHook(r)
	client := rehearsalClient{nowhere, r}
	queue := push.Default.Queue()
	_, err := asynq.NewClientFromRedisClient(client).Enqueue(asynq.NewTask(push.TaskType, nil), asynq.Queue(queue))
	if r.unknown != "" {
		return r.verdict()
	}
	if err != nil {
		return err
	}
	server := asynq.NewServerFromRedisClient(client, asynq.Config{
		Concurrency: 1, Queues: map[string]int{queue: 1}, TaskCheckInterval: time.Millisecond, DelayedTaskCheckInterval: time.Millisecond,
		ShutdownTimeout: time.Millisecond, Logger: asynqLog{slog.New(slog.DiscardHandler), new(once)},
	})
	runs := 0
	err = server.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		switch runs++; runs {
		case 1:
			return nil // it is done
		case 2:
			return errRehearsal // it is retried
		}
		<-ctx.Done() // it is requeued
		return nil
	}))
	if err != nil {
		return err
	}
	for late := time.After(patience); !r.over("dequeueCmd", "doneCmd", "retryCmd", "forwardCmd", "listLeaseExpiredCmd"); {
		select {
		case <-r.changed:
			continue
		case <-late:
		}
		break
	}
	server.Shutdown()
	return r.verdict()
}

var errRehearsal = errors.New("there is no Redis")

// A rehearsal answers asynq's commands in the place of a Redis that has three jobs.
type rehearsal struct {
	known   map[string]string // scripts by their hashes
	changed chan struct{}     // whenever a script has run

	mu      sync.Mutex
	message any             // of the job that was enqueued
	handed  int             // how often it was handed out
	ran     map[string]bool // by a script's name
	unknown string          // hash of another script
}

// over reports whether the scripts have run and the last job is in hand, or another
// script has.
func (r *rehearsal) over(names ...string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		if !r.ran[name] {
			return r.unknown != ""
		}
	}
	return r.handed == 3 || r.unknown != ""
}

func (r *rehearsal) verdict() error {
	if r.unknown != "" {
		return push.UnknownScript(r.unknown)
	}
	for _, name := range []string{"enqueueCmd", "dequeueCmd", "doneCmd", "retryCmd", "requeueCmd", "forwardCmd", "listLeaseExpiredCmd"} {
		if !r.ran[name] {
			return push.OtherAsynq("does not run " + name)
		}
	}
	return nil
}

// A rehearsalClient has its scripts where client has them that takes their place.
type rehearsalClient struct {
	*redis.Client
	r *rehearsal
}

// EvalSha implements redis.UniversalClient.
func (c rehearsalClient) EvalSha(_ context.Context, hash string, _ []string, args ...any) *redis.Cmd {
	return redis.NewCmdResult(c.r.run(hash, args))
}

func (r *rehearsal) run(hash string, args []any) (any, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := r.known[hash]
	r.ran[name] = true
	defer func() {
		select {
		case r.changed <- struct{}{}:
		default:
		}
	}()
	switch {
	case name == "":
		r.unknown = hash
	case name == "enqueueCmd":
		r.message = args[0]
		return int64(1), nil
	case name == "dequeueCmd" && r.handed < 3:
		r.handed++
		return r.message, nil
	case name == "dequeueCmd":
		return nil, redis.Nil
	case name == "listLeaseExpiredCmd":
		return []any{}, nil
	}
	return int64(0), nil
}

// DialHook implements redis.Hook.
func (r *rehearsal) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (r *rehearsal) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { return nil }
}

// ProcessHook implements redis.Hook.
func (r *rehearsal) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error { return nil }
}
