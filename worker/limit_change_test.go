package worker_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// tuned returns a rig with overrides.
func tuned(t *testing.T, client redis.UniversalClient, general throttle.Policy, categories map[string]throttle.Policy) (*rig, *limits.Overrides) {
	t.Helper()
	r := newRig(t, client, limits.New(general, categories))
	r.options.Waiting = r.limiter.Waiting
	r.options.Overrides = limits.NewOverrides(r.client, "", 0)
	return r, r.options.Overrides
}

// startTwo starts two workers, each with its own limits.
func (r *rig) startTwo() (first, second *limits.Policies) {
	r.t.Helper()
	first = r.options.Limits
	r.start()
	second = limits.New(first.Base())
	r.options.Limits = second
	r.start()
	return first, second
}

func every(period time.Duration) throttle.Policy {
	return throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: period}}}
}

// went waits until the n notifications of a line are sent.
func (r *rig) went(user string, n int) {
	r.t.Helper()
	for i := range n {
		id := fmt.Sprint(user, "-", i)
		wait(r.t, func() bool { return len(r.pushed(id)) == 1 })
	}
}

// apart checks that each admission after the given time was at least a period after the previous
// admission.
func (r *rig) apart(user, scope string, after time.Time, period time.Duration) {
	r.t.Helper()
	timeline, err := r.limiter.Timeline(r.t.Context(), throttle.Request{App: "shop", User: user, Scopes: []throttle.Scope{{Name: scope}}})
	must(r.t, err)
	admissions := timeline.Admissions[scope]
	for i := 1; i < len(admissions); i++ {
		if apart := admissions[i].At.Sub(admissions[i-1].At); admissions[i].At.After(after) && apart < period-time.Millisecond {
			r.t.Errorf("%s: %s are %s apart, the limit is %s", user, scope, apart, period)
		}
	}
	if len(timeline.Bookings) > 0 {
		r.t.Errorf("%s: bookings are left: %+v", user, timeline.Bookings)
	}
}

func TestRaisedLimitReschedulesWaitingNotifications(t *testing.T) {
	t.Parallel()
	const n = 3
	hour, second := every(time.Hour), every(time.Second)
	for _, c := range []struct {
		name     string
		general  throttle.Policy
		category string
		override *limits.Override // first in force
		change   func(ctx context.Context, o *limits.Overrides, limits []*limits.Policies) error
		period   time.Duration // from then on
	}{
		{"a user's override is removed, and nothing is below it", throttle.Policy{}, "", &limits.Override{Level: limits.Level{User: "u"}, Policy: hour}, func(ctx context.Context, o *limits.Overrides, _ []*limits.Policies) error {
			_, err := o.Unset(ctx, limits.Level{User: "u"}, "ann")
			return err
		}, 0},
		{"a user's override ends", second, "", &limits.Override{Level: limits.Level{User: "u"}, Policy: hour}, func(ctx context.Context, o *limits.Overrides, _ []*limits.Policies) error {
			return o.Set(ctx, limits.Override{Level: limits.Level{User: "u"}, Policy: hour, Until: time.Now().Add(1500 * time.Millisecond), By: "ann"})
		}, time.Second},
		{"a category is exempt, and waits for the general limits", hour, "code", nil, func(ctx context.Context, o *limits.Overrides, _ []*limits.Policies) error {
			return o.Set(ctx, limits.Override{Level: limits.Level{Category: "code"}, Policy: throttle.Policy{Exempt: true}, By: "ann"})
		}, 0},
		{"the default, reloaded", hour, "", nil, func(_ context.Context, _ *limits.Overrides, limits []*limits.Policies) error {
			for _, l := range limits {
				l.SetBase(second, nil)
			}
			return nil
		}, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, o := tuned(t, redistest.Own(t), c.general, nil)
			if c.override != nil {
				override := *c.override
				override.By = "ann"
				must(t, o.Set(t.Context(), override))
			}
			first, second := r.startTwo()
			r.line("u", []string{c.category}, n-1)
			changed := time.Now()
			must(t, c.change(t.Context(), o, []*limits.Policies{first, second}))
			r.went("u", n)
			r.apart("u", throttle.General, changed.Add(time.Second), c.period)
		})
	}
}

// A raised limit of a category in one app gives earlier slots to all users of the app. Users with their
// own overrides, and other apps, keep their slots.
func TestRaisedCategoryLimitReschedulesUsers(t *testing.T) {
	const users, n = 4, 2
	r, o := tuned(t, oneRedis(t), throttle.Policy{}, map[string]throttle.Policy{"news": every(time.Hour)})
	must(t, o.Set(t.Context(), limits.Override{Level: limits.Level{User: "slow", Category: "news"}, Policy: every(2 * time.Hour), By: "ann"}))
	r.startTwo()
	for u := range users {
		r.line(fmt.Sprint("u", u), []string{"news"}, n-1)
	}
	r.line("slow", []string{"news"}, n-1)
	for i := range n {
		other := to(fmt.Sprint("other", i))
		other.App, other.User, other.Category = "apple", "u0", "news"
		r.enqueue(other)
		if i == 0 { // if both are enqueued at once, either may be first
			wait(t, func() bool { return len(r.pushed("other0")) == 1 })
		}
	}
	r.deferred("other1")
	must(t, o.Set(t.Context(), limits.Override{Level: limits.Level{App: "shop", Category: "news"}, Policy: every(time.Second), By: "ann"}))
	changed := time.Now()
	for u := range users {
		user := fmt.Sprint("u", u)
		r.went(user, n)
		r.apart(user, "news", changed.Add(time.Second), time.Second)
	}
	if len(r.pushed("slow-1")) != 0 || len(r.pushed("other1")) != 0 {
		t.Error("a user with its own override, or one of another app, has the category's limit")
	}
	must(t, o.Set(t.Context(), limits.Override{Level: limits.Level{Category: "news"}, Policy: every(time.Second), By: "ann"}))
	wait(t, func() bool { return len(r.pushed("other1")) == 1 })
}

// A user's override applies at once, even while a scan of all waiting users is blocked.
func TestUserOverrideDoesNotWaitForScan(t *testing.T) {
	t.Parallel()
	const n = 2
	client := redistest.Own(t)
	locks := redistest.Count(client, names("pushpace:{limits}:pass"))
	r, o := tuned(t, client, every(time.Hour), map[string]throttle.Policy{"news": every(time.Hour)})
	r.start()
	r.line("u", []string{""}, n-1)
	must(t, client.Set(t.Context(), "pushpace:{limits}:pass", "another worker", 0).Err())
	must(t, o.Set(t.Context(), limits.Override{Level: limits.Level{Category: "news"}, Policy: every(time.Second), By: "ann"}))
	wait(t, func() bool { return locks.Load() > 1 })
	must(t, o.Set(t.Context(), limits.Override{Level: limits.Level{User: "u"}, Policy: every(time.Second), By: "ann"}))
	r.went("u", n)
}

// names reports whether one of a command's arguments contains part.
func names(part string) func(redis.Cmder) bool {
	return func(cmd redis.Cmder) bool {
		return slices.ContainsFunc(cmd.Args(), func(arg any) bool {
			key, ok := arg.(string)
			return ok && strings.Contains(key, part)
		})
	}
}

// A job needs no command for its policy: the worker reads the overrides' keys four times a second,
// independent of the number of jobs.
func TestPoliciesCostNoCommandsPerJob(t *testing.T) {
	client := oneRedis(t)
	const n = 100
	ofLimits, all := redistest.Count(client, names("{limits}")), redistest.Count(client, redistest.Any)
	r, o := tuned(t, client, every(time.Millisecond), map[string]throttle.Policy{"news": every(time.Millisecond)})
	for i := range 20 {
		must(t, o.Set(t.Context(), limits.Override{Level: limits.Level{User: fmt.Sprint("u", i), Category: []string{"", "news"}[i%2]}, Policy: every(2 * time.Millisecond), By: "ann"}))
	}
	r.start()
	began := time.Now() // took includes the reads of the count
	before := ofLimits.Load()
	for i := range n {
		notification := to(fmt.Sprint("n", i))
		notification.User, notification.Category = fmt.Sprint("u", i%40), "news"
		r.enqueue(notification)
	}
	if counts := r.settled(n); counts.Ended[push.Delivered] != n {
		t.Errorf("ended %+v", counts.Ended)
	}
	spent := ofLimits.Load() - before
	took := time.Since(began)
	most := int64(took/(250*time.Millisecond)) + 3
	if spent > most || all.Load() < n {
		t.Errorf("%d commands for the policies of %d jobs in %s, want at most %d; %d commands in all", spent, n, took, most, all.Load())
	}
}

// A worker that cannot read the overrides pulls nothing until it can.
func TestWorkerPullsNothingBeforeReadingOverrides(t *testing.T) {
	var there atomic.Bool
	server := redistest.Miniredis(t)
	client := redis.NewClient(&redis.Options{MaxRetries: -1, DialerRetries: 1, Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
		address := "127.0.0.1:1"
		if there.Load() {
			address = server.Addr()
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}})
	t.Cleanup(func() { client.Close() })
	r, _ := tuned(t, oneRedis(t), every(time.Second), nil)
	r.options.Overrides = limits.NewOverrides(client, "", 0)
	log := r.logs()
	r.start()()
	r.enqueue(to("one"))
	r.start()
	wait(t, func() bool {
		return strings.Contains(log.String(), "this worker pulls no jobs until it can read the operators' pauses and limits")
	})
	if n := len(r.pushed("")); n > 0 {
		t.Errorf("%d are sent by unknown limits", n)
	}
	there.Store(true)
	r.settled(1)
}
