package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/fcm"
	"github.com/pushpace/pushpace/providers/webpush"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker"
)

const (
	// besideJobs is how many notifications for each push service are on the queue.
	besideJobs = 16000
	// besideLimit is how long a round may take: a worker that what is stuck has brought to
	// a stop is rated by what it has delivered until then.
	besideLimit = 15 * time.Second
	// besidePool is as large as the goroutines that use it.
	besidePool = 320
)

// A street has two push services that one worker sends to.
type street struct {
	// stuck and open answer the i-th target at the one that takes every push and answers
	// none, and at the other.
	stuck, open func(i int) push.Target
	// senders opens those of both.
	senders func(ctx context.Context, s *standIns) (map[push.Platform]providers.Sender, error)
}

// blackHole begins the tokens whose pushes the stand-ins never answer.
const blackHole = "fade0b1a"

// apnsAndFCM are two platforms.
func apnsAndFCM() street {
	return street{
		stuck: func(i int) push.Target {
			return push.Target{Platform: push.APNs, Token: blackHole + fmt.Sprintf("%056x", i)}
		},
		open: func(i int) push.Target { return push.Target{Platform: push.FCM, Token: fmt.Sprintf("%064x", i)} },
		senders: func(ctx context.Context, s *standIns) (map[push.Platform]providers.Sender, error) {
			a, err := apns.New(s.APNs)
			if err != nil {
				return nil, err
			}
			f, err := fcm.New(ctx, s.FCM)
			return map[push.Platform]providers.Sender{push.APNs: a, push.FCM: f}, err
		},
	}
}

// mozillaAndGoogle are two push services of one platform.
func mozillaAndGoogle() street {
	at := func(service push.Platform, name string) func(i int) push.Target {
		all := slices.Collect(maps.Values(subscriptions(service, name)))
		return func(i int) push.Target { return all[i%len(all)] }
	}
	return street{
		stuck: at(push.WebPushMozilla, blackHole), open: at(push.WebPushGoogle, "device"),
		senders: func(_ context.Context, s *standIns) (map[push.Platform]providers.Sender, error) {
			w, err := webpush.New(s.WebPush)
			return map[push.Platform]providers.Sender{push.PlatformWebPush: w}, err
		},
	}
}

// compareBeside adds, for each street, the rate of what is open through a whole worker
// beside what is stuck, over its rate alone; nil without a Redis.
func (r *run) compareBeside(ctx context.Context, figures map[string]any) error {
	for name, open := range map[string]func() street{
		"fcm_beside_stuck_apns": apnsAndFCM, "webpush_beside_stuck_service": mozillaAndGoogle,
	} {
		figures[name] = nil
		if r.admin == nil {
			fmt.Fprintf(os.Stderr, "no %s: there is no Redis; name one with -redis\n", name)
			continue
		}
		ratio, err := r.beside(ctx, name, open())
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		figures[name] = ratio
	}
	return nil
}

func (r *run) beside(ctx context.Context, name string, on street) (_ float64, err error) {
	s, err := startStandIns(ctx, 0, "")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	at, err := r.openStage(ctx)
	if err != nil {
		return 0, err
	}
	defer at.clear()
	plain := at.client(besidePool)
	defer plain.Close()
	client, stop := pipeline.Share(plain, pipeline.Options{}) // as serve does
	defer stop()
	rates := map[bool][]float64{}
	for round := range r.rounds + 1 {
		for _, stuck := range []bool{round%2 == 0, round%2 != 0} {
			rate, err := on.play(ctx, client, at.Prefix, s, stuck)
			if err != nil {
				return 0, err
			}
			if round > 0 { // the first one warms up
				rates[stuck] = append(rates[stuck], rate)
			}
			at.clear()
		}
	}
	beside, alone := median(rates[true]), median(rates[false])
	fmt.Fprintf(os.Stderr, "%s: alone %.0f/s, beside %.0f/s\n", name, alone, beside)
	return beside / alone, nil
}

// play enqueues what is open, between as many for what is stuck if that is asked for, and
// answers how many a second a fresh worker delivers.
func (on street) play(ctx context.Context, client redis.UniversalClient, prefix string, s *standIns, stuck bool) (float64, error) {
	targets := []func(int) push.Target{on.open}
	if stuck {
		targets = []func(int) push.Target{on.stuck, on.open}
	}
	if err := enqueue(ctx, client, prefix, targets); err != nil {
		return 0, err
	}
	senders, err := on.senders(ctx, s)
	if err != nil {
		return 0, err
	}
	for _, sender := range senders {
		defer sender.Close()
	}
	warm := on.open(0)
	if err := sending(senders[warm.Platform], func(string) push.Target { return warm })(ctx, warm.Token, next.Add(1)); err != nil {
		return 0, err
	}
	limiter, err := throttle.New(client, throttle.Options{Prefix: prefix})
	if err != nil {
		return 0, err
	}
	defer limiter.Close()
	count := newTally(besideJobs)
	w, err := worker.New(worker.Options{
		Queue: client, Limiter: limiter, Prefix: prefix,
		Limits:   limits.New(throttle.Policy{Rates: []throttle.Rate{{Count: 100, Period: time.Minute}}}, nil),
		Senders:  map[string]map[push.Platform]providers.Sender{"shop": senders},
		Observer: count,
		Log:      slog.New(slog.DiscardHandler), ShutdownTimeout: time.Second,
	})
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := w.Start(ctx); err != nil {
		return 0, err
	}
	defer func() { _ = w.Stop(context.Background()) }()
	select {
	case <-count.done:
	case <-time.After(besideLimit):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	return float64(count.delivered.Load()) / time.Since(start).Seconds(), nil
}

// enqueue puts besideJobs notifications for each kind of target on the queue, in turns.
func enqueue(ctx context.Context, client redis.UniversalClient, prefix string, targets []func(int) push.Target) error {
	producer := push.NewProducer(client, prefix, 0)
	return each(ctx, enqueuers, besideJobs*len(targets), func(ctx context.Context, i int) error {
		_, err := producer.Enqueue(ctx, &push.Notification{
			ID: id(next.Add(1)), App: "shop", User: fmt.Sprintf("user-%d", i/len(targets)), Title: benchTitle, Body: benchBody,
			Targets: []push.Target{targets[i%len(targets)](i / len(targets))},
		})
		return err
	})
}
