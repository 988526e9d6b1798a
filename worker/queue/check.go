package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	const patience = 10 * time.Second // on a machine that is busy
	r := &rehearsal{ran: map[string]bool{}, changed: make(chan struct{}, 1)}
	client := redis.NewClient(&redis.Options{
		MaxRetries: -1, DisableIdentity: true,
		Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, errRehearsal },
	})
	defer client.Close()
	client.AddHook(r)
	queue := push.Default.Queue()
	if _, err := asynq.NewClientFromRedisClient(client).Enqueue(asynq.NewTask(push.TaskType, nil), asynq.Queue(queue)); err != nil {
		return err
	}
	server := asynq.NewServerFromRedisClient(client, asynq.Config{
		Concurrency: 1, Queues: map[string]int{queue: 1}, TaskCheckInterval: time.Millisecond, DelayedTaskCheckInterval: time.Millisecond,
		ShutdownTimeout: time.Millisecond, Logger: asynqLog{slog.New(slog.DiscardHandler), new(once)},
	})
	runs := 0
	err := server.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
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
	for late := time.After(patience); !r.over(dequeueHash, doneHash, retryHash, forwardHash, leasesHash); {
		select {
		case <-r.changed:
			continue
		case <-late:
		}
		break
	}
	server.Shutdown()
	return r.verdict()
})

var errRehearsal = errors.New("there is no Redis")

// A rehearsal is a client's hook that answers asynq's commands in the place of a
// Redis that has three jobs.
type rehearsal struct {
	changed chan struct{} // whenever a script has run

	mu      sync.Mutex
	message any // of the job that was enqueued
	handed  int // how often it was handed out
	ran     map[string]bool
	unknown string
}

// over reports whether the scripts have run and the last job is in hand, or another
// script has.
func (r *rehearsal) over(hashes ...string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, hash := range hashes {
		if !r.ran[hash] {
			return r.unknown != ""
		}
	}
	return r.handed == 3 || r.unknown != ""
}

func (r *rehearsal) verdict() error {
	if r.unknown != "" {
		return push.UnknownScript(r.unknown)
	}
	for _, hash := range []string{dequeueHash, doneHash, retryHash, requeueHash, forwardHash, leasesHash} {
		if !r.ran[hash] {
			return fmt.Errorf("%w; it does not run %s", push.UnknownScript("none"), scripts[hash])
		}
	}
	return nil
}

// DialHook implements redis.Hook.
func (r *rehearsal) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (r *rehearsal) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { return nil }
}

// ProcessHook implements redis.Hook.
func (r *rehearsal) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		script, ok := cmd.(*redis.Cmd)
		if !ok || cmd.Name() != "evalsha" {
			return nil
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		hash, _ := cmd.Args()[1].(string)
		r.ran[hash] = true
		defer func() {
			select {
			case r.changed <- struct{}{}:
			default:
			}
		}()
		switch {
		case hash == push.EnqueueHash:
			r.message = cmd.Args()[5]
			script.SetVal(int64(1))
		case hash == dequeueHash && r.handed < 3:
			r.handed++
			script.SetVal(r.message)
		case hash == dequeueHash:
			script.SetErr(redis.Nil)
		case hash == leasesHash:
			script.SetVal([]any{})
		default:
			if scripts[hash] == "" {
				r.unknown = hash
			}
			script.SetVal(int64(0))
		}
		return script.Err()
	}
}
