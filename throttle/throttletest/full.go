package throttletest

import (
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// fullLine: no more of a user's notifications hold slots than may. One beyond is
// told to come back behind the others, and has a slot or leaves then.
func fullLine(s *stage) {
	const most, behind = 10, 30
	for _, tt := range []struct {
		name     string
		scopes   []throttle.Scope
		distance time.Duration
	}{
		{"general limits", scopes(policy(time.Second, rate(10, 30*time.Second)), "", throttle.Policy{}), 3 * time.Second},
		{"a category's", scopes(policy(0, rate(10, time.Second)), "c", policy(4*time.Second)), 4 * time.Second},
		{"both", scopes(policy(2*time.Second), "c", policy(0, rate(3, 4*time.Second))), 2 * time.Second},
		{"a category's alone", scopes(policy(0), "c", policy(3*time.Second))[1:], 3 * time.Second},
	} {
		b := s.backlog(most+behind, tt.scopes)
		told := time.Time{}
		full := 0
		b.before = func(j *job) {
			j.request.MaxBooked, j.request.Returned = most, j.asks > 0
			if d := s.peek(s, j.request); d.Full {
				full++
				if !d.At.After(told) {
					s.Fatalf("%s: one comes back at %v, the one before at %v", tt.name, d.At, told)
				}
				told = d.At
			}
			if held := len(s.timeline(s, j.request).Bookings); held > most {
				s.Fatalf("%s: %d hold slots, want %d at most", tt.name, held, most)
			}
		}
		b.drain()
		asks, last := 0, b.start
		for _, j := range b.jobs {
			asks += j.asks
			if j.admitted.After(last) {
				last = j.admitted
			}
		}
		if full != behind-1 { // one went at once
			s.Errorf("%s: %d were put off without a slot", tt.name, full)
		}
		if ideal := time.Duration(len(b.jobs)) * tt.distance; last.Sub(b.start) > ideal*11/10 {
			s.Errorf("%s: drained in %v, ideal is %v", tt.name, last.Sub(b.start), ideal)
		}
		if n := float64(asks) / float64(len(b.jobs)); n > 2.1 {
			s.Errorf("%s: %.2f calls for each delivery", tt.name, n)
		}
	}
}

// roomAgain: a line that had no room keeps half of it for those who return, and
// takes whoever comes when none of them is to come any more.
func roomAgain(s *stage) {
	r := throttle.Request{User: s.user(), Horizon: time.Hour, MaxBooked: 4, Scopes: scopes(policy(10*time.Second), "", throttle.Policy{})}
	ask := func(id string, returned bool) throttle.Decision {
		r.ID, r.Returned = id, returned
		return s.acquire(s, r)
	}
	ask("sent", false)
	for _, id := range []string{"a", "b", "c", "d"} {
		if d := ask(id, false); d.Status != throttle.Deferred || d.Full {
			s.Fatalf("%s has no slot: %+v", id, d)
		}
	}
	first := ask("e", false)
	if !first.Full || first.Left < 50*time.Second || first.Left > 51*time.Second {
		s.Fatalf("e: %+v", first)
	}
	for _, id := range []string{"a", "b"} {
		r.ID = id
		s.cancel(s, r)
	}
	if d := ask("f", false); !d.Full || !d.At.After(first.At) {
		s.Fatalf("f comes between those who wait: %+v", d)
	}
	if d := ask("e", true); d.Full || d.Status != throttle.Deferred {
		s.Fatalf("e has returned, there is room: %+v", d)
	}
	s.Advance(2 * time.Minute)
	for _, id := range []string{"c", "d", "e", "f"} {
		r.ID = id
		s.cancel(s, r)
	}
	s.want(s, throttle.Granted, throttle.Request{User: r.User, ID: "g", Scopes: r.Scopes})
	if d := ask("h", false); d.Full {
		s.Fatalf("h: nobody waits: %+v", d)
	}
}
