package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/sideshow/apns2"
	"github.com/sideshow/apns2/payload"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/providers/apns"
)

// A contender enqueues notifications one by one, and after start works them off.
type contender struct {
	enqueue func(ctx context.Context, i int) error
	start   func() error
	stop    func()
	count   *tally
}

var contenders = map[string]func(ctx context.Context, t turn) (*contender, error){
	"ours": oursContender, "quiet": quietContender, "stock": stockContender, "acknowledged": acknowledgedContender,
}

// acknowledgedContender returns pushpace with writes that a replica confirms before the answer.
func acknowledgedContender(ctx context.Context, t turn) (*contender, error) {
	t.Acknowledged = 1
	return oursContender(ctx, t)
}

// contestantCommand is the argument that starts this program as a contestant's turn.
const contestantCommand = "contestant"

// takeTurn reads a turn from standard input, takes it, and prints the result.
func takeTurn(ctx context.Context) error {
	var t turn
	if err := json.NewDecoder(os.Stdin).Decode(&t); err != nil {
		return err
	}
	got, err := t.take(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(got)
}

// gcPercent is the GC setting of `pushpace serve`; every contestant uses it.
const gcPercent = 150

func (t turn) take(ctx context.Context) (result, error) {
	var got result
	debug.SetGCPercent(gcPercent)
	ctx, cancel := context.WithTimeout(ctx, turnLimit)
	defer cancel()
	c, err := contenders[t.Contestant](ctx, t)
	if err != nil {
		return got, err
	}
	m, err := t.newMeter(ctx)
	if err != nil {
		return got, err
	}
	defer m.redis.Close()
	if err := each(ctx, enqueuers, t.N, c.enqueue); err != nil {
		return got, fmt.Errorf("enqueue: %w", err)
	}
	if got.Enqueue, err = m.lap(ctx); err != nil {
		return got, err
	}
	profiled, err := t.startProfile()
	if err != nil {
		return got, err
	}
	if _, err := m.lap(ctx); err != nil {
		return got, err
	}
	if err := c.start(); err != nil {
		return got, err
	}
	if err := c.count.wait(ctx); err != nil {
		return got, err
	}
	if got.Work, err = m.lap(ctx); err != nil {
		return got, err
	}
	if err := profiled(); err != nil {
		return got, err
	}
	got.PeakMB = peakMB()
	c.stop()
	if delivered := c.count.delivered.Load(); delivered != int64(t.N) {
		return got, fmt.Errorf("only %d of %d notifications were delivered", delivered, t.N)
	}
	return got, nil
}

// startProfile starts the turn's profiles, and returns a function that ends them.
func (t turn) startProfile() (end func() error, err error) {
	if t.Profile == "" {
		return func() error { return nil }, nil
	}
	cpu, err := os.Create(t.Profile + ".cpu")
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, err
	}
	return func() error {
		pprof.StopCPUProfile()
		allocs, err := os.Create(t.Profile + ".allocs")
		if err != nil {
			return err
		}
		runtime.GC()
		return errors.Join(pprof.Lookup("allocs").WriteTo(allocs, 0), allocs.Close(), cpu.Close())
	}, nil
}

// oursContender returns the complete pushpace.
func oursContender(ctx context.Context, t turn) (*contender, error) {
	return t.limited(ctx, config.Limits{Default: dispatchPolicy})
}

// limited returns pushpace with these limits.
func (t turn) limited(ctx context.Context, limited config.Limits) (*contender, error) {
	sender, err := apns.New(t.APNs)
	if err != nil {
		return nil, err
	}
	count := newTally(t.N)
	sys, err := openSystem(ctx, t.stage, limited, sender, count)
	if err != nil {
		return nil, err
	}
	return &contender{
		enqueue: func(ctx context.Context, i int) error {
			_, err := sys.producer.Enqueue(ctx, notification(i, t.users()))
			return err
		},
		start: func() error { return sys.worker.Start(ctx) },
		stop: func() {
			_ = sys.worker.Stop(context.Background())
			_ = sender.Close()
			_ = sys.close()
		},
		count: count,
	}, nil
}

func (t turn) users() int { return max(1, t.N/perUser) }

// stockContender returns a plain composition of asynq, the published window and apns2.
func stockContender(_ context.Context, t turn) (*contender, error) {
	apns, err := newStockClient(t.APNs)
	if err != nil {
		return nil, err
	}
	client := t.client(stockPool)
	limiter := newWindow(client, t.Prefix+":window:", dispatchPolicy)
	return asynqContender(t, client, func(ctx context.Context, task *asynq.Task) error {
		var job stockJob
		if err := json.Unmarshal(task.Payload(), &job); err != nil {
			return err
		}
		left, err := limiter.check(ctx, job.User, job.ID)
		if err != nil {
			return err
		}
		if left > 0 {
			return &tooSoon{left}
		}
		answer, err := apns.PushWithContext(ctx, &apns2.Notification{
			DeviceToken: job.Token, Topic: t.APNs.Topic,
			Payload: payload.NewPayload().AlertTitle(job.Title).AlertBody(job.Body).Custom("order", job.Order),
		})
		if err != nil {
			return err
		}
		if !answer.Sent() {
			return fmt.Errorf("APNs: %s", answer.Reason)
		}
		return nil
	}), nil
}

// A stockJob is the payload of the stock composition, with the same content as our notification.
type stockJob struct {
	ID    string `json:"id"`
	User  string `json:"user"`
	Token string `json:"token"`
	Title string `json:"title"`
	Body  string `json:"body"`
	Order string `json:"order"`
}

// asynqContender returns one asynq server with the handler.
func asynqContender(t turn, client *redis.Client, handle asynq.HandlerFunc) *contender {
	tasks := asynq.NewClientFromRedisClient(client)
	server := newStockServer(client, t.Prefix)
	count := newTally(t.N)
	return &contender{
		enqueue: func(ctx context.Context, i int) error {
			n := notification(i, t.users())
			job, err := json.Marshal(stockJob{n.ID, n.User, n.Targets[0].Token, n.Title, n.Body, n.Data["order"]})
			if err != nil {
				return err
			}
			_, err = tasks.EnqueueContext(ctx, asynq.NewTask("push", job), asynq.Queue(t.Prefix))
			return err
		},
		start: func() error {
			return server.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
				err := handle(ctx, task)
				if err == nil {
					count.end(true)
				}
				return err
			}))
		},
		stop: func() {
			server.Shutdown()
			_ = client.Close()
		},
		count: count,
	}
}
