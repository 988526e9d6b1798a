package throttletest

import (
	"fmt"
	"slices"
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

// raisedLimit: when a limit is raised, the next call moves those who wait
// forward and tells so; woken, they follow the raised limit.
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
		b.wake = true
		for _, j := range b.jobs {
			b.at(b.start, j)
		}
		changed := b.start.Add(25 * time.Second)
		b.resume(changed)
		for _, j := range b.jobs {
			j.request.Scopes = tt.then
		}
		newcomer := b.jobs[0].request
		newcomer.ID = "newcomer"
		d := s.acquire(s, newcomer)
		if d.Status != throttle.Deferred || d.Left > 20*time.Second {
			s.Errorf("%s: a newcomer has %+v", tt.name, d)
		}
		if len(d.Moved) != 17 {
			s.Errorf("%s: %d of 17 are moved forward: %v", tt.name, len(d.Moved), d.Moved)
		}
		byID := map[string]*job{}
		for _, j := range b.jobs {
			byID[j.request.ID] = j
		}
		b.moved(d.Moved, byID)
		b.resume(time.Time{})
		b.ordered(tt.name)
		last := b.jobs[len(b.jobs)-1].admitted
		if took := last.Sub(changed); took > 19*time.Second {
			s.Errorf("%s: 17 notifications at one a second take %v", tt.name, took)
		}
	}
}

// raisedForTheCaller: the one of those who wait whose call finds the limit
// raised has its new slot as the answer; the others are moved.
func raisedForTheCaller(s *stage) {
	r := throttle.Request{User: s.user(), Horizon: 100 * time.Hour, Scopes: scopes(policy(time.Hour), "", throttle.Policy{})}
	for i := range 6 {
		r.ID = fmt.Sprint("n", i)
		s.acquire(s, r)
	}
	r.ID, r.Scopes = "n3", scopes(policy(time.Minute), "", throttle.Policy{})
	d := s.want(s, throttle.Deferred, r)
	if d.Left > 4*time.Minute {
		s.Errorf("the third who waits, at one a minute, has %v left", d.Left)
	}
	var moved []string
	for _, b := range d.Moved {
		moved = append(moved, b.ID)
	}
	if want := []string{"n1", "n2", "n4", "n5"}; !slices.Equal(moved, want) {
		s.Errorf("moved are %v, want %v", moved, want)
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

// rescheduling: Reschedule moves those who wait as far forward as the limits
// of its request allow, in their order, and tells who they are.
func rescheduling(s *stage) {
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
		if moved := s.reschedule(s, r); len(moved) > 0 || describe(s.timeline(s, r)) != describe(before) {
			s.Fatalf("%s: without a change rescheduling moves %v", tt.name, moved)
		}
		r.Scopes = tt.then
		moved := s.reschedule(s, r)
		if len(moved) != 7 {
			s.Fatalf("%s: %d of 7 are moved: %v", tt.name, len(moved), moved)
		}
		for i, b := range moved {
			slot := first.Add(time.Duration(i+1) * time.Minute)
			if late := b.Slot.Sub(slot); b.ID != fmt.Sprint("n", i+1) || late < 0 || late > time.Duration(i+1)*3*time.Millisecond {
				s.Errorf("%s: moved %+v, want the slot %v", tt.name, b, slot)
			}
		}
		bookings := s.timeline(s, r).Bookings
		if !slices.EqualFunc(bookings, moved, sameSlot) {
			s.Errorf("%s: there wait %v, moved are %v", tt.name, bookings, moved)
		}
		for _, b := range bookings {
			if b.Scope != tt.waits {
				s.Errorf("%s: %+v waits for another scope than %s", tt.name, b, tt.waits)
			}
		}
		r.Scopes = tt.before // back again: they are put off, which nobody has to be told
		if moved := s.reschedule(s, r); len(moved) > 0 {
			s.Errorf("%s: lowering moves %v forward", tt.name, moved)
		}
		if after := s.timeline(s, r); describe(after) != describe(before) {
			s.Errorf("%s: lowered again there wait\n%sbefore\n%s", tt.name, describe(after), describe(before))
		}
	}
}

// raisedForEveryCategory: the general limits are raised by a call of one
// category, and those of another find their slots moved with their part of the
// limits.
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
	if moved := s.reschedule(s, a); len(moved) != 5 {
		s.Fatalf("%d of 5 are moved: %v", len(moved), moved)
	}
	b.ID, b.Scopes = "newcomer", scopes(fast, "b", own)
	if d := s.want(s, throttle.Deferred, b); d.Left > 10*time.Second {
		s.Errorf("behind five at one a second a newcomer waits %v", d.Left)
	}
}
