package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/fcm"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker"
)

const (
	// besideJobs is how many notifications of each platform are on the queue.
	besideJobs = 16000
	// besideLimit is how long a round may take: a worker that APNs has brought to
	// a stop is rated by what FCM got until then.
	besideLimit = 15 * time.Second
	// besidePool is as large as the goroutines that use it.
	besidePool = 320
)

// besideStuckAPNs is FCM's rate through a whole worker while APNs takes every
// push and answers none, over its rate alone. It answers nil without a Redis.
func (r *run) besideStuckAPNs(ctx context.Context) (_ any, err error) {
	if r.admin == nil {
		fmt.Fprintln(os.Stderr, "no fcm_beside_stuck_apns: there is no Redis; name one with -redis")
		return nil, nil
	}
	s, err := startStandIns(ctx, 0, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := always(ctx, s.APNsAdmin, &standin.Answer{Fault: standin.BlackHole}); err != nil {
		return nil, err
	}
	on, err := r.openStage(ctx)
	if err != nil {
		return nil, err
	}
	defer on.clear()
	plain := on.client(besidePool)
	defer plain.Close()
	client, stop := pipeline.Share(plain, pipeline.Options{}) // as serve does
	defer stop()
	rates := map[bool][]float64{}
	for round := range r.rounds + 1 {
		for _, stuck := range []bool{round%2 == 0, round%2 != 0} {
			rate, err := besideRound(ctx, client, on.Prefix, s, stuck)
			if err != nil {
				return nil, err
			}
			if round > 0 { // the first one warms up
				rates[stuck] = append(rates[stuck], rate)
			}
			on.clear()
		}
	}
	beside, alone := median(rates[true]), median(rates[false])
	fmt.Fprintf(os.Stderr, "fcm through the worker: alone %.0f/s, beside a stuck APNs %.0f/s\n", alone, beside)
	return beside / alone, nil
}

// besideRound enqueues FCM's notifications, between as many of APNs' if that is
// stuck, and answers how many a second a fresh worker gets to FCM.
func besideRound(ctx context.Context, client redis.UniversalClient, prefix string, s *standIns, stuck bool) (float64, error) {
	platforms := []push.Platform{push.FCM}
	if stuck {
		platforms = []push.Platform{push.APNs, push.FCM}
	}
	if err := enqueue(ctx, client, prefix, platforms); err != nil {
		return 0, err
	}
	a, err := apns.New(s.APNs)
	if err != nil {
		return 0, err
	}
	defer a.Close()
	f, err := fcm.New(ctx, s.FCM)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if err := sending(f, push.FCM)(ctx, "warm", next.Add(1)); err != nil {
		return 0, err
	}
	limiter, err := throttle.New(client, throttle.Options{Prefix: prefix})
	if err != nil {
		return 0, err
	}
	defer limiter.Close()
	w, err := worker.New(worker.Options{
		Queue: client, Limiter: limiter, Prefix: prefix,
		Limits:  limits.New(throttle.Policy{Rates: []throttle.Rate{{Count: 100, Period: time.Minute}}}, nil),
		Senders: map[string]map[push.Platform]providers.Sender{"shop": {push.APNs: a, push.FCM: f}},
		Log:     slog.New(slog.DiscardHandler), ShutdownTimeout: time.Second,
	})
	if err != nil {
		return 0, err
	}
	before, err := accepted(ctx, s.FCMAdmin)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := w.Start(ctx); err != nil {
		return 0, err
	}
	defer func() { _ = w.Stop(context.Background()) }()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		n, err := accepted(ctx, s.FCMAdmin)
		if err != nil {
			return 0, err
		}
		if took := time.Since(start); n-before >= besideJobs || took > besideLimit {
			return float64(n-before) / took.Seconds(), nil
		}
	}
}

// enqueue puts besideJobs notifications of each platform on the queue, in turns.
func enqueue(ctx context.Context, client redis.UniversalClient, prefix string, platforms []push.Platform) error {
	producer := push.NewProducer(client, prefix, 0)
	work := make(chan int)
	failed := make(chan error, 32)
	var producing sync.WaitGroup
	for range cap(failed) {
		producing.Go(func() {
			for i := range work {
				_, err := producer.Enqueue(ctx, &push.Notification{
					ID: id(next.Add(1)), App: "shop", User: fmt.Sprintf("user-%d", i/len(platforms)), Title: benchTitle, Body: benchBody,
					Targets: []push.Target{{Platform: platforms[i%len(platforms)], Token: fmt.Sprintf("%064x", i)}},
				})
				if err != nil {
					failed <- err
					return
				}
			}
		})
	}
	var err error
	for i := 0; i < besideJobs*len(platforms) && err == nil; i++ {
		select {
		case work <- i:
		case err = <-failed:
		}
	}
	close(work)
	producing.Wait()
	select {
	case err = <-failed:
	default:
	}
	return err
}
