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

// both are specs of which each counts by a script of its own.
func both(t testing.TB) map[string]meter.Spec {
	return map[string]meter.Spec{
		"bucket": {Rates: rates(t, "10/1h")},
		"cells":  {Algorithm: meter.SlidingWindow, Rates: rates(t, "10/1h", "100/24h")},
	}
}

// On Redis's own clock, on a Cluster too: all units, then none, and one key, which lapses.
func TestOnItsClock(t *testing.T) {
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

// A denied ask does not touch the key, nor its expiry.
func TestADenialWritesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client, prefix, ctx := server.Client(t), redistest.Prefix(), t.Context()
	m := meter.NewPatient(client, prefix)
	for name, spec := range both(t) {
		key := prefix + ":{meter/k}:" + name
		look := func() (string, int64) {
			return client.Get(ctx, key).Val(), client.Do(ctx, "PEXPIRETIME", key).Val().(int64)
		}
		if _, err := m.Take(ctx, "k", spec, meter.Ask{Most: 10}); err != nil {
			t.Fatal(err)
		}
		value, expires := look()
		for range 3 {
			if answer, err := m.Take(ctx, "k", spec, meter.Ask{Most: 1}); err != nil || answer.Units > 0 {
				t.Fatalf("%s: %+v, %v", name, answer, err)
			}
		}
		if v, e := look(); v != value || e != expires || value == "" {
			t.Errorf("%s: %q until %d; before the denials %q until %d", name, v, e, value, expires)
		}
	}
}

// A key that is not ours is named, with what to do, and is no outage.
func TestAnotherTypeUnderTheKey(t *testing.T) {
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
			if err := errors.Join(client.Del(ctx, key).Err(), put()); err != nil {
				t.Fatal(err)
			}
			_, err := m.Take(ctx, "k", spec, meter.Ask{Most: 1})
			if err == nil || errors.Is(err, throttle.ErrUnavailable) || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "delete it") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// Scripts that Redis has forgotten are sent again, also for many at once on one pipeline.
func TestFlushedScripts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	base := server.Client(t)
	client, stop := pipeline.Share(base, pipeline.Options{Timeout: redistest.Patience})
	defer stop()
	m, ctx := meter.NewPatient(client, "p"), t.Context()
	for name, spec := range both(t) {
		var taken atomic.Int64
		for range 5 {
			if err := base.ScriptFlush(ctx).Err(); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					answer, err := m.Take(ctx, "k", spec, meter.Ask{Most: 1})
					if err != nil {
						t.Errorf("%s: %v", name, err)
					}
					taken.Add(int64(answer.Units))
				})
			}
			wg.Wait()
		}
		if n := taken.Load(); n != 10 {
			t.Errorf("%s: %d units of 10", name, n)
		}
	}
}

// A Redis without memory still denies what is used up. What it cannot note it does not give.
func TestNoMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, ctx := server.Client(t), t.Context()
	m := meter.NewPatient(client, "p")
	for name, spec := range both(t) {
		if _, err := m.Take(ctx, "used", spec, meter.Ask{Most: 10}); err != nil {
			t.Fatal(err)
		}
		if err := client.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
			t.Fatal(err)
		}
		if answer, err := m.Take(ctx, "used", spec, meter.Ask{Most: 1}); err != nil || answer.Units != 0 {
			t.Errorf("%s: used up: %+v, %v", name, answer, err)
		}
		if answer, err := m.Take(ctx, "new", spec, meter.Ask{Most: 1}); !errors.Is(err, throttle.ErrUnavailable) {
			t.Errorf("%s: new: %+v, %v", name, answer, err)
		}
		if err := client.ConfigSet(ctx, "maxmemory", "0").Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// What a replica refuses to write is no trouble of one key: the client learns of it, and
// looks for another server. Nobody gets anything.
func TestReadOnly(t *testing.T) {
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
		if err := errors.Join(take("k"), client.Do(ctx, "REPLICAOF", "127.0.0.1", "1").Err()); err != nil {
			t.Fatal(err)
		}
		connection := client.ClientID(ctx).Val()
		if err := take("k"); !errors.Is(err, throttle.ErrUnavailable) || !strings.Contains(err.Error(), "READONLY") {
			t.Errorf("%s: %v", name, err)
		}
		if client.ClientID(ctx).Val() == connection {
			t.Errorf("%s: it goes on with a server that writes nothing", name)
		}
		if err := client.Do(ctx, "REPLICAOF", "NO", "ONE").Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// Takes of about the same time share scripts, and each gets its own answer: those of one
// key no more than it has, those of a broken key what is wrong with it. What looks like
// ours there, and is not, is nobody else's trouble.
func TestTakesTogether(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	base := server.Client(t)
	counter := new(calls)
	redistest.Hook(base, counter)
	client, stop := pipeline.Share(base, pipeline.Options{Timeout: redistest.Patience})
	defer stop()
	m, ctx := meter.NewPatient(client, "p"), t.Context()
	large := strings.Repeat("9", 40)
	odd := map[string]string{
		"bucket": fmt.Sprintf("%s %s 1 1 %s", large, large, large),
		"cells":  fmt.Sprintf("360000000 %d 0 %s;8640000000 %d 0 %s;", time.Now().Unix()/360, large, time.Now().Unix()/8640, large), // no cell has them
	}
	for name, spec := range both(t) {
		broken := "p:{meter/broken}:" + name
		if err := errors.Join(base.LPush(ctx, broken, "x").Err(), base.Set(ctx, "p:{meter/odd}:"+name, odd[name], 0).Err()); err != nil {
			t.Fatal(err)
		}
		counter.scripts.Store(0)
		server.Pause(t) // what comes meanwhile is together
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
		time.Sleep(100 * time.Millisecond) // until they have come
		server.Resume(t)
		wg.Wait()
		for key, n := range taken {
			if n.Load() != 10 {
				t.Errorf("%s: key %s: %d units of 10", name, key, n.Load())
			}
		}
		if n := counter.scripts.Load(); n >= 5*each {
			t.Errorf("%s: %d scripts for %d takes", name, n, 5*each)
		}
	}
}

// Cells of which a rate is gone live no longer than those of the others say.
func TestARateIsGone(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t).Client(t), redistest.Prefix()
	m, ctx := meter.NewPatient(client, prefix), t.Context()
	hourly, daily := throttle.Rate{Count: 10, Period: time.Hour}, throttle.Rate{Count: 1000, Period: 24 * time.Hour}
	for _, rates := range [][]throttle.Rate{{hourly, daily}, {hourly}, {hourly}} {
		spec := meter.Spec{Algorithm: meter.SlidingWindow, Rates: rates}
		if answer, err := m.Take(ctx, "k", spec, meter.Ask{Most: 1}); err != nil || answer.Units != 1 {
			t.Fatalf("%v: %+v, %v", rates, answer, err)
		}
		most := 2 * rates[len(rates)-1].Period
		if ttl := client.PTTL(ctx, prefix+":{meter/k}:cells").Val(); ttl <= 30*time.Minute || ttl > most {
			t.Errorf("%v: it expires in %s", rates, ttl)
		}
	}
}

// calls counts the scripts that are sent.
type calls struct{ scripts atomic.Int64 }

func (*calls) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*calls) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (c *calls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if strings.HasPrefix(cmd.Name(), "eval") {
				c.scripts.Add(1)
			}
		}
		return next(ctx, cmds)
	}
}

// A Redis that accepts and never answers, or is gone, holds nobody for long.
func TestAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1})
	defer client.Close()
	m := meter.NewRedis(client, "p")
	ask := func() error {
		start := time.Now()
		_, err := m.Take(t.Context(), "k", both(t)["bucket"], meter.Ask{Most: 1})
		if took := time.Since(start); took > 10*time.Second {
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

// Of a reply that is lost the units are lost too, and no more.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client := redistest.Connect(t, server.Options())
	m, ctx := meter.NewPatient(client, redistest.Prefix()), t.Context()
	if err := client.Ping(ctx).Err(); err != nil { // what makes a connection is not to be lost
		t.Fatal(err)
	}
	hook := new(losing)
	redistest.Hook(client, hook)
	for name, spec := range both(t) {
		taken, lost := 0, 0
		for i := range 20 {
			hook.lose.Store(i%3 == 0)
			answer, err := m.Take(ctx, "k", spec, meter.Ask{Most: 1})
			if err != nil {
				lost++
			}
			taken += answer.Units
		}
		if taken+min(lost, 4) != 10 || lost != 7 {
			t.Errorf("%s: %d units of 10, and %d replies are lost", name, taken, lost)
		}
	}
}

// losing loses replies of commands that are carried out.
type losing struct{ lose atomic.Bool }

func (*losing) DialHook(next redis.DialHook) redis.DialHook { return next }
func (l *losing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if l.lose.Load() && err == nil {
			err = errors.New("the reply is lost")
			cmd.SetErr(err)
		}
		return err
	}
}
func (*losing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
