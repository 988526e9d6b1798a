//go:build e2e && unix

package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/violations"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/judge"
	"github.com/pushpace/pushpace/test/rig"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

const tunedConfig = `
limits:
  default: {min_gap: 1500ms, rates: [4/20s]}
  categories: {news: {rates: [1/4s]}}
apps: {demo: {simulated: true}}
`

var (
	tunedDefault = throttle.Policy{MinGap: 1500 * time.Millisecond, Rates: []throttle.Rate{{Count: 4, Period: 20 * time.Second}}}
	tunedNews    = throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: 4 * time.Second}}}
)

// Limits of users and of a category change while 10,000 users receive notifications. From a
// second after each change nothing exceeds the limits in force, and nothing is lost.
func TestLimitsChangeUnderLoad(t *testing.T) {
	t.Parallel()
	const users, busy, more = 10_000, 200, 4 // each user gets one notification, each busy user more
	server := redistest.Start(t)
	s := &rig.Site{Client: server.Client(t)}
	s.Dir = rig.Write(t, "config.yaml", fmt.Sprintf("redis: {address: %q}\n%s", server.Addr(), tunedConfig))
	s.Simulate(t)
	workers := []*rig.Program{s.Serve(t), s.Serve(t)}
	longest := judge.Stalls()

	ctx, done := context.WithCancel(t.Context())
	var changing sync.WaitGroup
	overrides := limits.NewOverrides(s.Client, "", 0)
	changing.Go(func() { changeLimits(ctx, t, overrides, busy) })
	category := rig.Start(t, s.Setup, "limits", "set", "--category", "news", "--rate", "1/1500ms", "--by", "ann")

	sent := map[string]*push.Notification{}
	for i := range users + busy*more {
		user := i
		if i >= users {
			user = i % busy
		}
		n := &push.Notification{
			ID: fmt.Sprint("n-", i), App: "demo", User: fmt.Sprint("user-", user), Title: "hello",
			Targets: []push.Target{{Platform: push.FCM, Token: fmt.Sprint("device-", user)}},
		}
		if i%2 == 1 {
			n.Category = "news"
		}
		sent[n.ID] = n
	}
	for _, r := range push.NewProducer(s.Client, "", 0).EnqueueAll(t.Context(), slices.Collect(maps.Values(sent))) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if got := category.Wait(t); got != rig.Done {
		t.Errorf("limits set: exit status %d: %s", got, &category.Stderr)
	}
	counts := func() store.Counts {
		c, err := store.NewRecords(s.Client, "", 0).Counts(t.Context())
		rig.Must(t, err)
		return c
	}
	if !eventually.Within(90*time.Second, func() bool { return counts().Waiting() == 0 }) {
		t.Errorf("not all have ended: %+v", counts())
	}
	done()
	changing.Wait()
	stall := longest()
	s.Stop(t, workers...)
	s.Audited(t)
	if c := counts(); c.Ended[push.Delivered] != int64(len(sent)) {
		t.Errorf("%d were sent: %+v", len(sent), c)
	}

	categories := map[string]throttle.Policy{"news": tunedNews}
	const hops = 10 // steps until a change applies; a busy machine delays each as much as this process
	tolerance := time.Second + hops*stall
	h := judge.ReadHistory(t, overrides, tunedDefault, categories, tolerance)
	admitted := judge.Admissions(t, s.Client, "demo", busy, nil, "news")
	if found := violations.FindInForce(slices.Clone(admitted), h.InForce, time.Millisecond); len(found) > 0 {
		t.Errorf("%d of %d admissions exceed the limits in force, such as %+v\n%s", len(found), len(admitted), found[0], h.Around(found[0], admitted))
	}
	var received []violations.Push
	seen := map[string]bool{}
	for _, e := range s.Ledger(t) {
		if n := sent[e.Notification]; n != nil && !seen[e.Notification] {
			seen[e.Notification] = true
			received = append(received, violations.Push{App: "demo", User: n.User, Category: n.Category, At: e.At})
		}
	}
	if len(seen) != len(sent) {
		t.Errorf("%d of %d are in the ledger", len(seen), len(sent))
	}
	rig.NotBefore(t, admitted, received, nil)
	// the tolerance is the machine's delay between an admission and its push
	if found := violations.FindInForce(slices.Clone(received), h.InForce, tolerance); len(found) > 0 {
		t.Errorf("%d pushes exceed the limits in force with a tolerance of %s, such as %+v", len(found), tolerance, found[0])
	}
	// changes and deferrals must have happened
	configured := violations.Find(slices.Clone(admitted), tunedDefault, categories, time.Millisecond)
	if counts().Deferred == 0 || len(configured) == 0 || len(h.Changes) < 50 {
		t.Errorf("%d deferrals, %d changes, and %d admissions beyond the configured limits", counts().Deferred, len(h.Changes), len(configured))
	}
	t.Logf("%d delivered, %d changes, %d deferrals, %d admissions beyond the configured limits, tolerance %s",
		len(seen), len(h.Changes), counts().Deferred, len(configured), tolerance)
}

// changeLimits sets and removes overrides of the busy users and the category until ctx ends. Its
// limits delay no user for long.
func changeLimits(ctx context.Context, t *testing.T, o *limits.Overrides, busy int) {
	gap := func(d time.Duration) throttle.Policy { return throttle.Policy{MinGap: d} }
	every := time.NewTicker(100 * time.Millisecond)
	defer every.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		override := limits.Override{Level: limits.Level{User: fmt.Sprint("user-", rand.IntN(busy))}, By: "test"}
		override.Policy = gap([]time.Duration{300 * time.Millisecond, 800 * time.Millisecond, 2500 * time.Millisecond}[rand.IntN(3)])
		var err error
		switch {
		case i%10 == 0:
			override.User, override.Category = "", "news"
			override.Policy = gap([]time.Duration{time.Second, 2 * time.Second, 4 * time.Second}[rand.IntN(3)])
			err = o.Set(ctx, override)
		case i%10 == 1:
			override.Category, override.Until = "news", time.Now().Add(2*time.Second)
			err = o.Set(ctx, override)
		case i%10 == 2:
			_, err = o.Unset(ctx, override.Level, "test")
		case i%10 == 3:
			override.Until = time.Now().Add(time.Duration(500+rand.IntN(2000)) * time.Millisecond)
			err = o.Set(ctx, override)
		default:
			err = o.Set(ctx, override)
		}
		if err != nil && ctx.Err() == nil {
			t.Errorf("change a limit: %v", err)
		}
	}
}
