package throttletest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/throttle"
	"pgregory.net/rapid"
)

// waiters draws a user with admissions and slots, with periods so long that none passes during the
// test.
func (s *stage) waiters(rt *rapid.T) *history {
	h := &history{stage: s, user: s.user(), policies: map[string]throttle.Policy{}, alone: noneAlone}
	if rapid.IntRange(0, 3).Draw(rt, "alone") == 0 {
		h.alone = allAlone
	}
	for _, name := range []string{throttle.General, "a", "b", "c"} {
		h.policies[name] = drawPolicy(rt, 24*time.Hour, name)
	}
	for i := range rapid.IntRange(0, 20).Draw(rt, "history") {
		r := h.request(rt)
		r.ID = fmt.Sprint("old", i)
		r.Horizon = time.Duration(rapid.IntRange(0, 1).Draw(rt, "waits")) * 1000 * time.Hour
		s.acquire(rt, r)
	}
	return h
}

// snapshot describes all state of the history's user.
func (h *history) snapshot(t failer) string {
	text := ""
	for _, category := range []string{"a", "b", "c"} {
		text += describe(h.timeline(t, throttle.Request{User: h.user, Scopes: h.scopes(throttle.General, category)}))
	}
	return text
}

// refusalsLeaveNothing: a refused request changes no state.
func refusalsLeaveNothing(s *stage) {
	s.check(func(rt *rapid.T) {
		h := s.waiters(rt)
		before := h.snapshot(rt)
		for i := range rapid.IntRange(1, 10).Draw(rt, "calls") {
			r := h.request(rt)
			r.ID = fmt.Sprint("new", i)
			r.Horizon = time.Duration(rapid.IntRange(0, 1).Draw(rt, "waits")) * 1000 * time.Hour
			d := s.acquire(rt, r)
			after := h.snapshot(rt)
			if d.Status == throttle.Refused && after != before {
				rt.Fatalf("a refusal leaves\n%safter\n%s", after, before)
			}
			before = after
		}
	})
}

// cancelTheLast: a request, granted or deferred, and then its cancel leave the state unchanged.
func cancelTheLast(s *stage) {
	s.check(func(rt *rapid.T) {
		h := s.waiters(rt)
		before := h.snapshot(rt)
		for i := range rapid.IntRange(1, 5).Draw(rt, "calls") {
			r := h.request(rt)
			r.ID, r.Horizon = fmt.Sprint("new", i), 1000*time.Hour
			s.acquire(rt, r)
			s.pass(time.Second) // a line is rescheduled once a second
			if placed := s.cancel(rt, r); len(placed.Early) > 0 {
				rt.Fatalf("cancelling the last moves %v", placed.Early)
			}
			if after := h.snapshot(rt); after != before {
				rt.Fatalf("asking and cancelling leaves\n%safter\n%s", after, before)
			}
			if placed := s.cancel(rt, r); len(placed.Early) > 0 || h.snapshot(rt) != before {
				rt.Fatalf("cancelling twice moves %v", placed.Early)
			}
		}
	})
}

// cancelAnEarlier: after a cancel, each notification behind moves up by one slot.
func cancelAnEarlier(s *stage) {
	for _, tt := range []struct {
		name   string
		scopes []throttle.Scope
		waits  string // the scope whose limit sets the slots
	}{
		{"the general limits", scopes(policy(time.Minute), "", throttle.Policy{}), throttle.General},
		{"both", scopes(policy(time.Minute), "c", policy(time.Second)), throttle.General},
		{"the category's limits", scopes(policy(time.Second), "c", policy(time.Minute)), "c"},
	} {
		r := throttle.Request{User: s.user(), Scopes: tt.scopes, Horizon: 48 * time.Hour}
		slots := make([]time.Time, 10)
		for i := range slots {
			r.ID = fmt.Sprint("n", i)
			slots[i] = s.acquire(s, r).At
		}
		r.ID = "n4"
		var want []throttle.Booking
		for i := 5; i < 10; i++ {
			want = append(want, throttle.Booking{ID: fmt.Sprint("n", i), Scope: tt.waits, Slot: slots[i-1]})
		}
		if early := s.cancel(s, r).Early; len(early) == 0 || early[0].ID != "n5" {
			s.Fatalf("%s: cancelling %s wakes %v, want n5", tt.name, r.ID, early)
		}
		bookings := s.timeline(s, r).Bookings
		if len(bookings) != 8 || !slices.EqualFunc(bookings[3:], want, sameBooking) {
			s.Fatalf("%s: after cancelling %s there wait\n%v", tt.name, r.ID, bookings)
		}
		r.ID = "n9"
		if d := s.want(s, throttle.Deferred, r); !d.At.Equal(slots[8]) {
			s.Fatalf("%s: the last waits until %v, want %v", tt.name, d.At, slots[8])
		}
		r.ID = "n0" // cancels an admission too
		s.pass(time.Second)
		if early := s.settle(s, r, s.cancel(s, r), nil); !slices.ContainsFunc(early, func(b throttle.Booking) bool { return b.ID == "n1" }) {
			s.Fatalf("%s: giving the admission back wakes %v", tt.name, early)
		}
	}
}

// cancelLeavesTheDue: a cancel does not change a slot that is due and not asked for yet, nor the
// slots before the cancelled one.
func cancelLeavesTheDue(s *stage) {
	r := throttle.Request{User: s.user(), Scopes: scopes(policy(10*time.Second), "", throttle.Policy{}), Horizon: time.Hour}
	var due throttle.Decision
	for i := range 6 {
		r.ID = fmt.Sprint("n", i)
		if d := s.acquire(s, r); i == 1 {
			due = d
		}
	}
	s.Advance(due.Left + 30*time.Millisecond)
	before := s.timeline(s, r).Bookings
	r.ID = "n4"
	if early := s.cancel(s, r).Early; len(early) != 1 || early[0].ID != "n5" {
		s.Errorf("cancelling n4 wakes %v", early)
	}
	if after := s.timeline(s, r).Bookings; !slices.EqualFunc(after[:3], before[:3], sameBooking) {
		s.Errorf("the cancel of n4 leaves\n%v, before it there waited\n%v", after, before)
	}
}

func sameBooking(a, b throttle.Booking) bool { return sameSlot(a, b) && a.Scope == b.Scope }

func sameSlot(a, b throttle.Booking) bool { return a.ID == b.ID && a.Slot.Equal(b.Slot) }

// noScopesNoTrace: a request without scopes is granted at once and recorded nowhere.
func noScopesNoTrace(s *stage) {
	r := throttle.Request{User: s.user(), ID: "n"}
	for range 3 {
		s.want(s, throttle.Granted, r)
	}
	if placed := s.cancel(s, r); len(placed.Early) > 0 {
		s.Fatalf("cancelling moves %v", placed.Early)
	}
	r.Scopes = scopes(policy(time.Hour), "c", policy(time.Hour))
	if t := s.timeline(s, r); len(t.Admissions[throttle.General])+len(t.Admissions["c"])+len(t.Bookings) > 0 {
		s.Fatalf("it left %+v", t)
	}
	s.want(s, throttle.Granted, r)
}

// badRequests: an invalid request is an error with the reason.
func badRequests(s *stage) {
	good := throttle.Request{User: s.user(), ID: "n", Scopes: scopes(policy(time.Hour), "c", policy(time.Hour))}
	all, own := good.Scopes[0], good.Scopes[1]
	many := policy(0)
	for i := range throttle.MaxRates + 1 {
		many.Rates = append(many.Rates, rate(1, time.Duration(i+1)*time.Second))
	}
	ctx := context.Background()
	calls := map[string]func(context.Context, throttle.Request) error{
		"acquire": func(ctx context.Context, r throttle.Request) error { _, err := s.Limiter.Acquire(ctx, r); return err },
		"cancel":  func(ctx context.Context, r throttle.Request) error { _, err := s.Limiter.Cancel(ctx, r); return err },
		"replan": func(ctx context.Context, r throttle.Request) error {
			_, err := s.Limiter.Replan(ctx, []throttle.Request{r})
			return err
		},
		"timeline": func(ctx context.Context, r throttle.Request) error { _, err := s.Limiter.Timeline(ctx, r); return err },
	}
	for _, tt := range []struct {
		fault string
		spoil func(*throttle.Request)
	}{
		{"no notification ID", func(r *throttle.Request) { r.ID = "" }},
		{"no user", func(r *throttle.Request) { r.User = "" }},
		{"negative", func(r *throttle.Request) { r.Horizon = -1 }},
		{"at most two scopes", func(r *throttle.Request) { r.Scopes = []throttle.Scope{all, own, own} }},
		{"at most two scopes", func(r *throttle.Request) { r.Scopes = []throttle.Scope{own, all} }},
		{"at most two scopes", func(r *throttle.Request) { r.Scopes = []throttle.Scope{all, all} }},
		{"at most two scopes", func(r *throttle.Request) { r.Scopes = []throttle.Scope{own, own} }},
		{"rates", func(r *throttle.Request) { r.Scopes = []throttle.Scope{{Name: "c", Policy: many}} }},
	} {
		for name, call := range calls {
			r := good
			tt.spoil(&r)
			if r.ID == "" && (name == "replan" || name == "timeline") {
				continue // these calls need no ID
			}
			if err := call(ctx, r); err == nil || !strings.Contains(err.Error(), tt.fault) {
				s.Errorf("%s answers %v, want an error with %q", name, err, tt.fault)
			}
		}
	}
	ended, end := context.WithCancel(ctx)
	end()
	for name, call := range calls {
		if err := call(ended, good); !errors.Is(err, context.Canceled) {
			s.Errorf("%s answers %v when its context has ended", name, err)
		}
	}
	if t := s.timeline(s, good); len(t.Bookings) > 0 {
		s.Errorf("bad requests left %+v", t)
	}
}
