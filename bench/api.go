package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/pushpace/pushpace/internal/api"
	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
)

const (
	// apiNotifications is the number of notifications that each contestant enqueues in a round.
	apiNotifications = 20_000
	// apiBatch is the number of notifications in a batch.
	apiBatch = 100
	apiUsers = 1000
)

// apiBench measures how fast 64 clients enqueue through the HTTP API, one by one and a hundred at
// once, and 64 goroutines through the Producer. The time includes the encoding of the requests.
func apiBench(ctx context.Context, r *run) (map[string]any, error) {
	s, err := r.openStage(ctx)
	if err != nil {
		return nil, err
	}
	defer s.clear()
	n := r.n
	if n == 0 {
		n = apiNotifications
	}
	rates := map[string][]float64{}
	var p50s, p99s []float64
	names := []string{"post_single", "post_batch_100", "producer", "producer_batch_100"}
	for i := range r.rounds {
		for j := range names {
			name := names[(i+j)%len(names)]
			got, err := s.playAPI(ctx, name, n)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			rates[name] = append(rates[name], got.rate)
			fmt.Fprintf(os.Stderr, "%-14s %6.0f/s", name, got.rate)
			if name == "post_single" {
				p50s, p99s = append(p50s, got.p50), append(p99s, got.p99)
				fmt.Fprintf(os.Stderr, ", p50 %.2f ms, p99 %.2f ms", got.p50, got.p99)
			}
			fmt.Fprintln(os.Stderr)
		}
	}
	figures := map[string]any{"post_p50_ms": round(median(p50s), 3), "post_p99_ms": round(median(p99s), 3)}
	for _, name := range names {
		figures[name] = math.Round(median(rates[name]))
	}
	return figures, nil
}

// An apiResult is the cost of one contestant's round.
type apiResult struct {
	rate     float64 // notifications a second
	p50, p99 float64 // of a request, in ms
}

// playAPI makes one contestant enqueue n notifications, and removes its keys.
func (s stage) playAPI(ctx context.Context, name string, n int) (got apiResult, err error) {
	defer s.clear()
	enqueue, size, end, err := s.openAPI(ctx, name)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, end()) }()
	// opens connections, and stores the script and the queue's name, before the clock runs
	if err := each(ctx, enqueuers, 4*enqueuers, func(ctx context.Context, i int) error { return enqueue(ctx, 10*n+i*size, size) }); err != nil {
		return got, err
	}
	var mu sync.Mutex
	var took []time.Duration
	began := time.Now()
	err = each(ctx, enqueuers, n/size, func(ctx context.Context, i int) error {
		began := time.Now()
		err := enqueue(ctx, i*size, size)
		mu.Lock()
		took = append(took, time.Since(began))
		mu.Unlock()
		return err
	})
	got.rate = float64(n/size*size) / time.Since(began).Seconds()
	if err != nil {
		return got, err
	}
	slices.Sort(took)
	at := func(share float64) float64 {
		return float64(took[int(share*float64(len(took)-1))].Microseconds()) / 1000
	}
	got.p50, got.p99 = at(0.5), at(0.99)
	return got, nil
}

// openAPI returns enqueue, which enqueues count notifications from the i-th on, the count size of
// each call, and a function that ends the contestant.
func (s stage) openAPI(ctx context.Context, name string) (enqueue func(ctx context.Context, i, count int) error, size int, end func() error, err error) {
	var cfg config.Config
	cfg.SetDefaults()
	cfg.Redis.Address = config.Address{Mode: config.Single, Hosts: []string{s.Redis}}
	cfg.Redis.DB, cfg.Redis.Prefix = s.DB, s.Prefix
	cfg.HTTP.Listen = "127.0.0.1:0"
	conn, err := redisconn.Open(ctx, cfg.Redis, enqueuers)
	if err != nil {
		return nil, 0, nil, err
	}
	// as serve does for the API's producer
	shared, stop := pipeline.Share(conn.Client, pipeline.Options{Timeout: cfg.Redis.Timeout, Lanes: 2})
	producer := push.NewProducer(shared, cfg.Redis.Prefix, cfg.Worker.IDRetention)
	disconnect := func() error { stop(); return conn.Close() }
	if name == "producer" {
		return func(ctx context.Context, i, _ int) error {
			_, err := producer.Enqueue(ctx, notification(i, apiUsers))
			return err
		}, 1, disconnect, nil
	}
	if name == "producer_batch_100" {
		return func(ctx context.Context, i, count int) error {
			for _, r := range producer.EnqueueAll(ctx, batchOf(i, count)) {
				if r.Err != nil {
					return r.Err
				}
			}
			return nil
		}, apiBatch, disconnect, nil
	}
	records := store.NewRecords(shared, cfg.Redis.Prefix, cfg.Worker.IDRetention)
	limiter, err := throttle.New(shared, throttle.Options{Prefix: cfg.Redis.Prefix})
	if err != nil {
		return nil, 0, nil, errors.Join(err, disconnect())
	}
	policies := limits.New(cfg.Limits.Default, nil)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	service := operate.New(operate.Options{Producer: producer, Records: records, Control: control.New(shared, records, limiter, policies), Inspect: inspect.New(shared, records, limiter, policies),
		Limits: policies, Overrides: limits.NewOverrides(shared, cfg.Redis.Prefix, 0), Log: log})
	handler := api.New(api.Options{HTTP: cfg.HTTP, Tokens: new(operate.Tokens), Service: service, Log: log})
	listener, err := api.Listen(cfg.HTTP)
	if err != nil {
		return nil, 0, nil, errors.Join(err, limiter.Close(), disconnect())
	}
	server, err := api.Serve(listener, cfg.HTTP, handler, log)
	if err != nil {
		return nil, 0, nil, errors.Join(err, limiter.Close(), disconnect())
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: enqueuers}, Timeout: time.Minute}
	url := server.URL() + "/v1/notifications"
	ended := func() error {
		client.CloseIdleConnections()
		err := server.Shutdown(context.Background())
		handler.Close()
		return errors.Join(err, limiter.Close(), disconnect())
	}
	if name == "post_single" {
		return func(ctx context.Context, i, _ int) error { return post(ctx, client, url, notification(i, apiUsers)) }, 1, ended, nil
	}
	return func(ctx context.Context, i, count int) error {
		return post(ctx, client, url, batchOf(i, count))
	}, apiBatch, ended, nil
}

// batchOf returns count notifications from the i-th on.
func batchOf(i, count int) []*push.Notification {
	all := make([]*push.Notification, count)
	for j := range all {
		all[j] = notification(i+j, apiUsers)
	}
	return all
}

// post posts the value as JSON. It returns an error unless the API accepts it.
func post(ctx context.Context, client *http.Client, url string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusAccepted {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return err
}
