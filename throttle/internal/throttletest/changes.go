package throttletest

import (
	"fmt"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// brieflyShort: a notification that waits for the general limits keeps its position, even if it is
// slightly too early for its category.
func brieflyShort(s *stage) {
	general, own := policy(time.Second), policy(3*time.Second)
	user := s.user()
	ask := func(category string, p throttle.Policy, id string) throttle.Decision {
		return s.acquire(s, throttle.Request{User: user, ID: id, Horizon: time.Hour, Scopes: scopes(general, category, p)})
	}
	ask("a", own, "a0")
	ask("b", policy(0), "b1")
	ask("b", policy(0), "b2")
	a3 := ask("a", own, "a3")
	for i := range 30 {
		ask("b", policy(0), fmt.Sprint("c", i)) // these wait for the general limits too
	}
	own.MinGap = a3.Left + 20*time.Millisecond
	s.Advance(a3.Left)
	d := ask("a", own, "a3")
	if d.Status != throttle.Deferred || d.Left > 50*time.Millisecond {
		s.Fatalf("short by 20 ms for its category it is put off: %+v", d)
	}
	s.Advance(d.Left)
	if d := ask("a", own, "a3"); d.Status != throttle.Granted {
		s.Errorf("it then has %+v", d)
	}
}

// replanning: Replan moves slots as early as its request's limits allow, keeps the order of the
// slots, and returns the first ones. Without a change no slot moves.
func replanning(s *stage) {
	for _, tt := range []struct {
		name         string
		before, then []throttle.Scope
		waits        string
	}{
		{"the general limits", scopes(policy(time.Hour), "", throttle.Policy{}), scopes(policy(time.Minute), "", throttle.Policy{}), throttle.General},
		{"the category's", scopes(policy(0), "c", policy(time.Hour)), scopes(policy(0), "c", policy(time.Minute)), "c"},
	} {
		r := throttle.Request{User: s.user(), Horizon: 1000 * time.Hour, Scopes: tt.before}
		var first time.Time
		for i := range 8 {
			r.ID = fmt.Sprint("n", i)
			d := s.acquire(s, r)
			if i == 0 {
				first = d.At
			}
		}
		before := s.timeline(s, r)
		if placed := s.replan(s, r); len(placed.Early) > 0 || describe(s.timeline(s, r)) != describe(before) {
			s.Fatalf("%s: without a change %v come forward", tt.name, placed.Early)
		}
		r.Scopes = tt.then
		if early := s.replan(s, r).Early; len(early) != 3 || early[0].ID != "n1" {
			s.Fatalf("%s: %v are to be woken, want three from n1 on", tt.name, early)
		}
		bookings := s.timeline(s, r).Bookings
		if len(bookings) != 7 {
			s.Fatalf("%s: %d of 7 wait", tt.name, len(bookings))
		}
		for i, b := range bookings {
			slot := first.Add(time.Duration(i+1) * time.Minute)
			if late := b.Slot.Sub(slot); b.ID != fmt.Sprint("n", i+1) || late < 0 || late > time.Duration(i+1)*3*time.Millisecond || b.Scope != tt.waits {
				s.Errorf("%s: there waits %+v, want the slot %v by %s", tt.name, b, slot, tt.waits)
			}
		}
		r.Scopes = tt.before // revert
		s.replan(s, r)
		if after := s.timeline(s, r); describe(after) != describe(before) {
			s.Errorf("%s: lowered again there wait\n%sbefore\n%s", tt.name, describe(after), describe(before))
		}
	}
}

// raisedForEveryCategory: after the general limits are raised, a Replan of one category returns
// the other waiting lines. A Replan of these moves their slots within their own limits.
func raisedForEveryCategory(s *stage) {
	slow, fast := policy(time.Hour), policy(time.Second)
	own := policy(time.Second)
	user := s.user()
	b := throttle.Request{User: user, Horizon: 1000 * time.Hour, Scopes: scopes(slow, "b", own)}
	for i := range 6 {
		b.ID = fmt.Sprint("b", i)
		s.acquire(s, b)
	}
	s.Advance(time.Second)
	a := throttle.Request{User: user, Horizon: 1000 * time.Hour, Scopes: scopes(fast, "a", own)}
	placed := s.replan(s, a)
	if len(placed.Others) != 1 || placed.Others[0].Category != "b" {
		s.Fatalf("the lines that wait besides are %v", placed.Others)
	}
	early := s.settle(s, a, placed, func(string) []throttle.Scope { return scopes(fast, "b", own) })
	if len(early) != 3 || early[0].ID != "b1" {
		s.Fatalf("%v are to be woken", early)
	}
	b.ID, b.Scopes = "newcomer", scopes(fast, "b", own)
	if d := s.want(s, throttle.Deferred, b); d.Left > 10*time.Second {
		s.Errorf("behind five at one a second a newcomer waits %v", d.Left)
	}
}
