//go:build unix

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/violations"
	"github.com/pushpace/pushpace/push"
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

// Limits of users and of a category change while 10,000 users are sent to. From
// a second after each change on nothing exceeds what is in force, and nothing is
// lost.
func TestLimitsChangeUnderLoad(t *testing.T) {
	aboutProcesses(t, "takes most of a minute")
	t.Parallel()
	const users, busy, more = 10_000, 200, 4 // everybody gets one, the busy ones more
	server := redistest.Start(t)
	s := &site{client: server.Client(t)}
	s.dir = write(t, "config.yaml", fmt.Sprintf("redis: {address: %q}\n%s", server.Addr(), tunedConfig))
	s.simulate(t)
	workers := []*program{s.serve(t), s.serve(t)}
	stop, longest := make(chan struct{}), make(chan time.Duration)
	go watchStalls(stop, longest)

	ctx, done := context.WithCancel(t.Context())
	var changing sync.WaitGroup
	overrides := limits.NewOverrides(s.client, "", 0)
	changing.Go(func() { changeLimits(ctx, t, overrides, busy) })
	category := start(t, s.setup, "limits", "set", "--category", "news", "--rate", "1/1500ms", "--by", "ann")

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
	s.enqueueAll(t, sent)
	if got := category.wait(t, 20*time.Second); got != exitDone {
		t.Errorf("limits set: exit status %d: %s", got, &category.stderr)
	}
	counts := func() ledger.Counts {
		c, err := ledger.NewRecords(s.client, "", 0).Counts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if !eventually.Within(90*time.Second, func() bool { return counts().Waiting() == 0 }) {
		t.Errorf("not all have ended: %+v", counts())
	}
	done()
	changing.Wait()
	close(stop)
	stall := <-longest
	for _, w := range workers {
		w.terminate(t)
		if got := w.wait(t, 25*time.Second); got != exitDone {
			t.Errorf("exit status %d: %s", got, &w.stderr)
		}
	}
	audit := start(t, s.setup, "audit", "--json")
	if status := audit.wait(t, 10*time.Second); status != exitDone || counts().Ended[push.Delivered] != int64(len(sent)) {
		t.Errorf("audit: exit status %d: %s%s", status, &audit.stdout, &audit.stderr)
	}

	categories := map[string]throttle.Policy{"news": tunedNews}
	h := readHistory(t, overrides, tunedDefault, categories, time.Second+stall)
	admitted := admissions(t, s.client, "demo", busy, nil, "news")
	if found := violations.FindInForce(slices.Clone(admitted), h.inForce, time.Millisecond); len(found) > 0 {
		t.Errorf("%d of %d admissions exceed the limits in force, such as %+v\n%s", len(found), len(admitted), found[0], h.around(found[0], admitted))
	}
	var received []violations.Push
	seen := map[string]bool{}
	for _, e := range s.ledger(t) {
		if n := sent[e.Notification]; n != nil && !seen[e.Notification] {
			seen[e.Notification] = true
			received = append(received, violations.Push{App: "demo", User: n.User, Category: n.Category, At: e.At})
		}
	}
	if len(seen) != len(sent) {
		t.Errorf("%d of %d are in the ledger", len(seen), len(sent))
	}
	notBefore(t, admitted, received, nil)
	// a push comes as late after its admission as the machine holds it up
	tolerance := time.Second + stall
	if found := violations.FindInForce(slices.Clone(received), h.inForce, tolerance); len(found) > 0 {
		t.Errorf("%d pushes exceed the limits in force with a tolerance of %s, such as %+v", len(found), tolerance, found[0])
	}
	// that is not for want of changes
	configured := violations.Find(slices.Clone(admitted), tunedDefault, categories, time.Millisecond)
	if counts().Deferred == 0 || len(configured) == 0 || len(h.changes) < 50 {
		t.Errorf("%d deferrals, %d changes, of which %d admissions show", counts().Deferred, len(h.changes), len(configured))
	}
	t.Logf("%d delivered, %d changes, %d deferrals, %d admissions beyond the configured limits, tolerance %s",
		len(seen), len(h.changes), counts().Deferred, len(configured), tolerance)
}

// changeLimits sets and removes overrides of the busy users and the category
// until ctx ends. None keeps anybody waiting for long.
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

func (s *site) enqueueAll(t *testing.T, all map[string]*push.Notification) {
	t.Helper()
	producer := push.NewProducer(s.client, "", 0)
	queue := make(chan *push.Notification)
	var producers sync.WaitGroup
	for range 8 {
		producers.Go(func() {
			for n := range queue {
				if _, err := producer.Enqueue(t.Context(), n); err != nil {
					t.Errorf("%s is not accepted: %v", n.ID, err)
				}
			}
		})
	}
	for _, n := range all {
		queue <- n
	}
	close(queue)
	producers.Wait()
}

// admissions are those of the first users' timelines, by the limiter's clock, with
// the categories that have limits. They are of what was sent, of everything where
// that is nil: a worker that is killed before it takes back an admission that was
// denied leaves one that counts and is not used.
func admissions(t *testing.T, client redis.UniversalClient, app string, users int, sent map[string]bool, categories ...string) []violations.Push {
	t.Helper()
	var names []string
	for i := range users {
		names = append(names, fmt.Sprint("user-", i))
	}
	return admissionsOf(t, client, app, names, sent, categories...)
}

func admissionsOf(t *testing.T, client redis.UniversalClient, app string, users []string, sent map[string]bool, categories ...string) []violations.Push {
	t.Helper()
	limiter, err := throttle.New(client, throttle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer limiter.Close()
	var all []violations.Push
	for _, user := range users {
		timeline := func(scopes ...throttle.Scope) throttle.Timeline {
			timeline, err := limiter.Timeline(t.Context(), throttle.Request{App: app, User: user, Scopes: scopes})
			if err != nil {
				t.Fatal(err)
			}
			if len(timeline.Bookings) > 0 {
				t.Errorf("bookings of %s are left: %+v", user, timeline.Bookings)
			}
			return timeline
		}
		of := map[string]string{} // the category of an ID
		for _, category := range categories {
			for _, a := range timeline(throttle.Scope{Name: throttle.General}, throttle.Scope{Name: category}).Admissions[category] {
				of[a.ID] = category
			}
		}
		for _, a := range timeline(throttle.Scope{Name: throttle.General}).Admissions[throttle.General] {
			if sent == nil || sent[a.ID] {
				all = append(all, violations.Push{App: app, User: user, Category: of[a.ID], At: a.At})
			}
		}
	}
	return all
}

// A history is what was in force when, by the log of the overrides.
type history struct {
	general    throttle.Policy // where nothing else is in force
	categories map[string]throttle.Policy
	// late is how long after a change the last worker has it in force.
	late    time.Duration
	changes []limits.Change
	levels  map[[2]string][]ruled
}

type ruled struct {
	from   time.Time
	policy *throttle.Policy // nil for the one below
}

// readHistory returns the history of overrides over the configured policies, of
// which none is in force after one of the log's any longer than late.
func readHistory(t *testing.T, o *limits.Overrides, general throttle.Policy, categories map[string]throttle.Policy, late time.Duration) *history {
	t.Helper()
	changes, err := o.Log(t.Context(), 0, limits.LogKept)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(changes)
	h := &history{general, categories, late, changes, map[[2]string][]ruled{}}
	for _, c := range changes {
		if c.Mute { // which touches no limits
			continue
		}
		level := [2]string{c.User, c.Category}
		if c.From != nil && !c.From.Until.IsZero() && c.From.Until.Before(c.At) { // it had stopped counting then
			h.levels[level] = append(h.levels[level], ruled{from: c.From.Until})
		}
		v := ruled{from: c.At}
		if c.To != nil {
			v.policy = &c.To.Policy
		}
		h.levels[level] = append(h.levels[level], v)
	}
	return h
}

// between returns what the level had at some instant between the two.
func (h *history) between(from, to time.Time, user, category string) []*throttle.Policy {
	had := []*throttle.Policy{nil}
	for _, v := range h.levels[[2]string{user, category}] {
		switch {
		case v.from.After(to):
			return had
		case v.from.After(from):
			had = append(had, v.policy)
		default:
			had = []*throttle.Policy{v.policy}
		}
	}
	return had
}

// around tells what of the user was admitted before the violation, and what was changed.
func (h *history) around(v violations.Violation, admitted []violations.Push) string {
	var lines []string
	line := func(at time.Time, format string, args ...any) {
		if from := at.Sub(v.At); from > -10*time.Second && from <= time.Second {
			lines = append(lines, at.Format("04:05.000000 ")+fmt.Sprintf(format, args...))
		}
	}
	for _, p := range admitted {
		if p.User == v.User {
			line(p.At, "admission, category %q", p.Category)
		}
	}
	for level, all := range h.levels {
		if level[0] == "" || level[0] == v.User {
			for _, r := range all {
				line(r.from, "%q: %+v", level, r.policy)
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// inForce is what some worker may have had in force for the push.
func (h *history) inForce(p violations.Push) violations.InForce {
	from, to := p.At.Add(-h.late), p.At.Add(10*time.Millisecond) // an instant of the log is a millisecond long
	var f violations.InForce
	for _, own := range h.between(from, to, p.User, "") {
		if own == nil {
			own = &h.general
		}
		f.General = append(f.General, *own)
	}
	configured, limited := h.categories[p.Category]
	if !limited {
		return f
	}
	for _, own := range h.between(from, to, p.User, p.Category) {
		if own != nil {
			f.Category = append(f.Category, *own)
			continue
		}
		for _, of := range h.between(from, to, "", p.Category) {
			if of == nil {
				of = &configured
			}
			f.Category = append(f.Category, *of)
		}
	}
	return f
}

func TestHistory(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	p := throttle.Policy{MinGap: time.Minute}
	h := &history{
		general: tunedDefault, late: time.Second,
		levels: map[[2]string][]ruled{{"u", ""}: {{at, &p}, {at.Add(10 * time.Second), nil}}},
	}
	for second, want := range map[int]string{-1: "1.5s", 1: "1.5s 1m0s", 2: "1m0s", 9: "1m0s", 10: "1m0s 1.5s", 11: "1m0s 1.5s", 12: "1.5s"} {
		var got []string
		for _, policy := range h.inForce(violations.Push{User: "u", At: at.Add(time.Duration(second)*time.Second - time.Millisecond)}).General {
			got = append(got, policy.MinGap.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%d s: %v, want %s", second, got, want)
		}
	}
}
