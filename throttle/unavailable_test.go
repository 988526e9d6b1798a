//go:build unix

package throttle_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle"
)

const shortTimeout = 150 * time.Millisecond

func limiterOn(t *testing.T, o *redis.Options) *throttle.Redis {
	t.Helper()
	o.ContextTimeoutEnabled = true
	o.DialTimeout, o.ReadTimeout, o.PoolTimeout = time.Minute, time.Minute, time.Minute // the limiter's timeout applies
	client := redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	return newLimiter(t, client, throttle.Options{Timeout: shortTimeout})
}

// calls returns all calls of a limiter; the call with a report has its own user.
func calls(l throttle.Planner, user string) map[string]func(context.Context) error {
	r := throttle.Request{User: user, ID: "n", Scopes: []throttle.Scope{
		{Name: throttle.General, Policy: throttle.Policy{MinGap: time.Minute}}, {Name: "c", Policy: throttle.Policy{MinGap: time.Hour}}}}
	report := r
	report.User, report.Report = user+"'", true
	return map[string]func(context.Context) error{
		"acquire":  func(ctx context.Context) error { _, err := l.Acquire(ctx, r); return err },
		"a report": func(ctx context.Context) error { _, err := l.Acquire(ctx, report); return err },
		"cancel":   func(ctx context.Context) error { _, err := l.Cancel(ctx, r); return err },
		"replan":   func(ctx context.Context) error { _, err := l.Replan(ctx, []throttle.Request{r}); return err },
		"timeline": func(ctx context.Context) error { _, err := l.Timeline(ctx, r); return err },
	}
}

// unavailable fails unless every call returns ErrUnavailable in time.
func unavailable(t *testing.T, l throttle.Planner) {
	t.Helper()
	for name, call := range calls(l, "unavailable") {
		inTime(t, name, func() {
			if err := call(context.Background()); !errors.Is(err, throttle.ErrUnavailable) {
				t.Errorf("%s: %v, want ErrUnavailable", name, err)
			}
		})
	}
}

// inTime fails if a call lasts for more than 30 s: longer than the limiter's timeout on any busy
// machine, and shorter than the client's timeouts.
func inTime(t *testing.T, name string, call func()) {
	t.Helper()
	began := time.Now()
	call()
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("%s takes %v", name, took)
	}
}

// TestHungRedisFailsCallsInTime stops a Redis that has answered before, and resumes it: a
// repeated request then holds one admission.
func TestHungRedisFailsCallsInTime(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := limiterOn(t, server.Options())
	for name, call := range calls(l, "before") {
		eventually.Holds(t, name+" is answered", func() bool { return call(context.Background()) == nil }) // a busy machine may need several tries within so short a timeout
	}
	server.Pause(t)
	unavailable(t, l)
	unavailable(t, limiterOn(t, &redis.Options{Addr: "127.0.0.1:1"})) // no server
	ctx, cancel := context.WithTimeout(context.Background(), shortTimeout/10)
	defer cancel()
	for name, call := range calls(l, "unavailable") {
		inTime(t, name+" with a shorter deadline", func() {
			if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s with a shorter deadline: %v", name, err)
			}
		})
	}
	server.Resume(t)
	r := throttle.Request{User: "unavailable", ID: "n", Scopes: []throttle.Scope{{Name: throttle.General, Policy: throttle.Policy{MinGap: time.Minute}}}}
	eventually.Holds(t, "it is granted when it is asked again", func() bool {
		d, err := l.Acquire(context.Background(), r)
		if err == nil && d.Status != throttle.Granted {
			t.Fatalf("asked again: %+v", d)
		}
		return err == nil
	})
	timeline, err := l.Timeline(context.Background(), r)
	if err != nil || len(timeline.Admissions[throttle.General]) != 1 || len(timeline.Bookings) > 0 {
		t.Fatalf("the timeline is %+v, %v", timeline, err)
	}
}

func TestClosedLimiterFails(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client := server.Client(t)
	l := throttle.NewRedis(client, throttle.Options{Prefix: redistest.Prefix()})
	for name, call := range calls(l, "open") {
		if err := call(context.Background()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	must(t, l.Close())
	if err := l.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	if err := calls(l, "closed")["acquire"](context.Background()); err == nil {
		t.Error("a closed limiter admits")
	}
}
