//go:build unix

package meter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
)

// both returns a spec for each script.
func both(t testing.TB) map[string]meter.Spec {
	return map[string]meter.Spec{
		"bucket": {Rates: rates(t, "10/1h")},
		"cells":  {Algorithm: meter.SlidingWindow, Rates: rates(t, "10/1h", "100/24h")},
	}
}

// On Redis's own clock, also on a Cluster, a take gets all units and the next take none. There is
// one key, and it expires.
func TestTakeUsesRedisClock(t *testing.T) {
	redistest.OverAll(t, func(t *testing.T, client redis.UniversalClient, prefix string) {
		m, ctx := meter.NewPatient(client, prefix), t.Context()
		for name, spec := range both(t) {
			for _, want := range []int{10, 0} {
				answer, err := m.Take(ctx, "fcm/a project}", spec, meter.Ask{Most: 20})
				if err != nil || answer.Units != want || want == 0 && (answer.Left <= 0 || answer.Left > time.Hour+6*time.Minute || answer.Rule != "10/1h") {
					t.Errorf("%s: %+v, %v; want %d", name, answer, err, want)
				}
			}
			key := prefix + ":{meter/fcm%2Fa%20project%7D}:" + name
			if ttl, err := client.PTTL(ctx, key).Result(); err != nil || ttl <= 0 || ttl > 27*time.Hour {
				t.Errorf("%s: %s expires in %s, %v", name, key, ttl, err)
			}
		}
	})
}

// A key with foreign data causes an error with the key and the remedy, and no outage.
func TestForeignKeyIsNoOutage(t *testing.T) {
	t.Parallel()
	client, prefix, ctx := redistest.Shared(t).Client(t), redistest.Prefix(), t.Context()
	m := meter.NewPatient(client, prefix)
	for name, spec := range both(t) {
		key := prefix + ":{meter/k}:" + name
		for _, put := range []func() error{
			func() error { return client.LPush(ctx, key, "x").Err() },
			func() error { return client.Set(ctx, key, "12 monkeys", 0).Err() },
			func() error { return client.Set(ctx, key, "", 0).Err() },
		} {
			must(t, errors.Join(client.Del(ctx, key).Err(), put()))
			_, err := m.Take(ctx, "k", spec, meter.Ask{Most: 1})
			if err == nil || errors.Is(err, throttle.ErrUnavailable) || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "delete the key") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// A Redis without memory still denies when units are used up, and fails other takes.
func TestFullRedisFailsGrantingTakes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, ctx := server.Client(t), t.Context()
	m := meter.NewPatient(client, "p")
	for name, spec := range both(t) {
		if _, err := m.Take(ctx, "used", spec, meter.Ask{Most: 10}); err != nil {
			t.Fatal(err)
		}
		must(t, client.ConfigSet(ctx, "maxmemory", "1").Err())
		if answer, err := m.Take(ctx, "used", spec, meter.Ask{Most: 1}); err != nil || answer.Units != 0 {
			t.Errorf("%s: used up: %+v, %v", name, answer, err)
		}
		if answer, err := m.Take(ctx, "new", spec, meter.Ask{Most: 1}); !errors.Is(err, throttle.ErrUnavailable) {
			t.Errorf("%s: new: %+v, %v", name, answer, err)
		}
		must(t, client.ConfigSet(ctx, "maxmemory", "0").Err())
	}
}

// A replica's refusal to write is not an error of one key: the client sees the refusal and looks
// for the master. No units are given out.
func TestReadOnlyReplicaGrantsNoUnits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	options := server.Options()
	options.PoolSize, options.MaxRetries = 1, -1
	client := redistest.Connect(t, options)
	m, ctx := meter.NewPatient(client, "p"), t.Context()
	for name, spec := range both(t) {
		take := func(key string) error {
			_, err := m.Take(ctx, key, spec, meter.Ask{Most: 1})
			return err
		}
		must(t, errors.Join(take("k"), client.Do(ctx, "REPLICAOF", "127.0.0.1", "1").Err()))
		connection := client.ClientID(ctx).Val()
		if err := take("k"); !errors.Is(err, throttle.ErrUnavailable) || !strings.Contains(err.Error(), "READONLY") {
			t.Errorf("%s: %v", name, err)
		}
		if client.ClientID(ctx).Val() == connection {
			t.Errorf("%s: it goes on with a server that writes nothing", name)
		}
		must(t, client.Do(ctx, "REPLICAOF", "NO", "ONE").Err())
	}
}

// Concurrent takes share scripts, and each take gets its own answer: the takes of one key get at
// most its units, and the takes of a key with foreign data an error that affects no other key.
func TestConcurrentTakesShareScripts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	base := server.Client(t)
	scripts := redistest.Count(base, redistest.Script)
	client, stop := pipeline.Share(base, pipeline.Options{Timeout: redistest.Patience})
	defer stop()
	m, ctx := meter.NewPatient(client, "p"), t.Context()
	large := strings.Repeat("9", 40)
	odd := map[string]string{
		"bucket": fmt.Sprintf("%s %s 1 1 %s", large, large, large),
		"cells":  fmt.Sprintf("360000000 %d 0 %s;8640000000 %d 0 %s;", time.Now().Unix()/360, large, time.Now().Unix()/8640, large), // beyond any cell
	}
	for name, spec := range both(t) {
		broken := "p:{meter/broken}:" + name
		must(t, errors.Join(base.LPush(ctx, broken, "x").Err(), base.Set(ctx, "p:{meter/odd}:"+name, odd[name], 0).Err()))
		scripts.Store(0)
		server.Pause(t) // the takes meanwhile share a batch
		var wg sync.WaitGroup
		taken := map[string]*atomic.Int64{"a": {}, "b": {}, "c": {}}
		const each = 25
		for range each {
			for key, n := range taken {
				wg.Go(func() {
					answer, err := m.Take(ctx, key, spec, meter.Ask{Most: 1})
					if err != nil || answer.Units == 0 && answer.Rule != "10/1h" {
						t.Errorf("%s: %+v, %v", name, answer, err)
					}
					n.Add(int64(answer.Units))
				})
			}
			wg.Go(func() {
				if _, err := m.Take(ctx, "odd", spec, meter.Ask{Most: 1}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
			wg.Go(func() {
				_, err := m.Take(ctx, "broken", spec, meter.Ask{Most: 1})
				if err == nil || errors.Is(err, throttle.ErrUnavailable) || !strings.Contains(err.Error(), broken) {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		time.Sleep(100 * time.Millisecond) // until all takes are queued
		server.Resume(t)
		wg.Wait()
		for key, n := range taken {
			if n.Load() != 10 {
				t.Errorf("%s: key %s: %d units of 10", name, key, n.Load())
			}
		}
		if n := scripts.Load(); n >= 5*each {
			t.Errorf("%s: %d scripts for %d takes", name, n, 5*each)
		}
	}
}

// A hung or stopped Redis does not block a call for long.
func TestTakeFailsWhileRedisHangs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1, DialTimeout: time.Minute, ReadTimeout: time.Minute})
	defer client.Close()
	m := meter.NewRedis(client, "p") // with a shorter timeout
	ask := func() error {
		start := time.Now()
		_, err := m.Take(t.Context(), "k", both(t)["bucket"], meter.Ask{Most: 1})
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("an answer after %s", took)
		}
		return err
	}
	server.Pause(t)
	if err := ask(); !errors.Is(err, throttle.ErrUnavailable) {
		t.Errorf("hung: %v", err)
	}
	server.Resume(t)
	server.Kill(t)
	if err := ask(); !errors.Is(err, throttle.ErrUnavailable) {
		t.Errorf("gone: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Take(ctx, "k", both(t)["bucket"], meter.Ask{Most: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
