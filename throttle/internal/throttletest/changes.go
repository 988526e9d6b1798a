package throttletest

import (
	"fmt"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// loweredLimit: a limit that is lowered while notifications wait binds from the
// next admission on, keeps their order, and costs each at most one call more.
func loweredLimit(s *stage) {
	second, slow := policy(time.Second), policy(3*time.Second)
	for _, tt := range []struct {
		name         string
		before, then []throttle.Scope
	}{
		{"the general limits", scopes(second, "", throttle.Policy{}), scopes(slow, "", throttle.Policy{})},
		{"the general limits of two scopes", scopes(second, "c", policy(0)), scopes(slow, "c", policy(0))},
		{"the category's, waiting for the general ones", scopes(second, "c", policy(0)), scopes(second, "c", slow)},
		{"the category's, waiting for them", scopes(policy(0), "c", second), scopes(policy(0), "c", slow)},
		{"a rate is added", scopes(second, "", throttle.Policy{}), scopes(policy(time.Second, rate(3, 20*time.Second)), "", throttle.Policy{})},
	} {
		b := s.backlog(20, tt.before)
		changed := b.start.Add(4500 * time.Millisecond)
		b.before = func(j *job) {
			if !b.now.Before(changed) {
				j.request.Scopes = tt.then
			}
		}
		b.drain()
		b.ordered(tt.name)
		most := 0
		for _, j := range b.jobs {
			most = max(most, j.asks)
		}
		if most > 3 {
			s.Errorf("%s: a notification asks %d times", tt.name, most)
		}
		// from the change on they follow the lowered limit closely
		last := b.jobs[len(b.jobs)-1]
		remaining := 0
		for _, j := range b.jobs {
			if !j.admitted.Before(changed) {
				remaining++
			}
		}
		requests := make([]throttle.Request, remaining)
		for i := range requests {
			requests[i] = throttle.Request{ID: fmt.Sprint(i), Scopes: tt.then}
		}
		perfect := ideal(requests, changed)
		if took, best := last.admitted.Sub(changed), perfect[remaining-1].Sub(changed); float64(took) > 1.25*float64(best)+3e9 {
			s.Errorf("%s: the last of %d is admitted after %v, at best after %v", tt.name, remaining, took, best)
		}
	}
}

// raisedLimit: when a limit is raised and the line placed again, those who wait move forward
// in their order. Woken as they are named, they follow the raised limit.
func raisedLimit(s *stage) {
	slow, fast := policy(10*time.Second), policy(time.Second)
	for _, tt := range []struct {
		name         string
		before, then []throttle.Scope
	}{
		{"the general limits", scopes(slow, "", throttle.Policy{}), scopes(fast, "", throttle.Policy{})},
		{"the general limits of two scopes", scopes(slow, "c", policy(0)), scopes(fast, "c", policy(0))},
		{"the category's", scopes(policy(0), "c", slow), scopes(policy(0), "c", fast)},
	} {
		b := s.backlog(20, tt.before)
		for _, j := range b.jobs {
			b.at(b.start, j)
		}
		changed := b.start.Add(25 * time.Second)
		b.resume(changed)
		for _, j := range b.jobs {
			j.request.Scopes = tt.then
		}
		placed := s.replan(s, b.jobs[0].request)
		if len(placed.Early) == 0 {
			s.Errorf("%s: nobody is to be woken", tt.name)
		}
		b.follow(b.jobs[0].request, placed)
		b.resume(time.Time{})
		b.ordered(tt.name)
		last := b.jobs[len(b.jobs)-1].admitted
		if took := last.Sub(changed); took > 19*time.Second {
			s.Errorf("%s: 17 notifications at one a second take %v", tt.name, took)
		}
	}
}

// brieflyShort: who comes for its slot among those who wait for the general
// limits, and is short for its category by a hair, does not lose its place.
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
		ask("b", policy(0), fmt.Sprint("c", i)) // more who wait for the general limits
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

// replanning: Replan moves those who wait as far forward as the limits of its request allow,
// in their order, and tells who is first. Without a change nobody moves.
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
		r.Scopes = tt.before // back again
		s.replan(s, r)
		if after := s.timeline(s, r); describe(after) != describe(before) {
			s.Errorf("%s: lowered again there wait\n%sbefore\n%s", tt.name, describe(after), describe(before))
		}
	}
}

// raisedForEveryCategory: the general limits are raised. A call for one category names the
// others that wait, and these move with their part of the limits.
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
