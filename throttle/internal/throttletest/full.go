package throttletest

import (
	"math/rand/v2"
	"slices"
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
		b.wake = true
		told := time.Time{}
		full := 0
		b.before = func(j *job) {
			j.request.MaxBooked = most
			if held := len(s.timeline(s, j.request).Bookings); held > most {
				s.Fatalf("%s: %d hold slots, want %d at most", tt.name, held, most)
			}
		}
		b.after = func(d throttle.Decision) {
			if !d.Full {
				return
			}
			full++
			if !d.At.After(told) {
				s.Fatalf("%s: one comes back at %v, the one before at %v", tt.name, d.At, told)
			}
			told = d.At
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

// roomAgain: of those that wait without a slot the earliest accepted gets the next one
// that there is room for, before whoever comes, and one that gives up keeps nobody.
func roomAgain(s *stage) {
	r := throttle.Request{User: s.user(), Horizon: time.Hour, MaxBooked: 2, Scopes: scopes(policy(10*time.Second), "", throttle.Policy{})}
	first := s.acquire(s, throttle.Request{User: r.User, ID: "sent", Scopes: r.Scopes}).At
	ask := func(id string, accepted int) throttle.Decision {
		r.ID, r.Accepted = id, first.Add(time.Duration(accepted)*time.Millisecond)
		return s.acquire(s, r)
	}
	cancel := func(id string) []throttle.Booking {
		r.ID = id
		return s.cancel(s, r)
	}
	for i, id := range []string{"a", "b"} {
		if d := ask(id, i); d.Status != throttle.Deferred || d.Full {
			s.Fatalf("%s has no slot: %+v", id, d)
		}
	}
	told := time.Time{}
	for i, id := range []string{"c", "d", "e"} {
		d := ask(id, 10+i)
		if !d.Full || !d.At.After(told) {
			s.Fatalf("%s: %+v, the one before comes back at %v", id, d, told)
		}
		told = d.At
	}
	if moved := cancel("c"); len(moved) > 0 {
		s.Fatalf("c held no slot, and %v come forward", moved)
	}
	if moved := cancel("a"); len(moved) != 2 || moved[0].ID != "b" || moved[1].ID != "d" {
		s.Fatalf("behind a, b comes forward and d gets a slot, not %v", moved)
	}
	if d := ask("f", 20); !d.Full {
		s.Fatalf("f comes before e: %+v", d)
	}
	if d := ask("earlier", 1); d.Full || d.Status != throttle.Deferred {
		s.Fatalf("it was accepted before d: %+v", d)
	}
	if d := ask("d", 11); !d.Full {
		s.Fatalf("d was accepted after two others: %+v", d)
	}
	s.Advance(2 * time.Minute)
	for _, id := range []string{"b", "earlier", "d", "e", "f"} {
		cancel(id)
	}
	s.want(s, throttle.Granted, throttle.Request{User: r.User, ID: "g", Scopes: r.Scopes})
	if d := ask("h", 30); d.Full {
		s.Fatalf("h: nobody waits: %+v", d)
	}
}

// beyondInOrder: the order of acceptance holds among many more than may hold slots,
// whoever asks first, and while some give up.
func beyondInOrder(s *stage) {
	for name, kinds := range map[string][][]throttle.Scope{
		"one category":   {scopes(policy(300*time.Millisecond, rate(10, 5*time.Second)), "", throttle.Policy{})},
		"two categories": {scopes(policy(300*time.Millisecond), "a", policy(time.Second)), scopes(policy(300*time.Millisecond), "b", policy(0))},
	} {
		b := s.backlog(s.size(900)/len(kinds), kinds...)
		for i, j := range b.jobs {
			j.request.MaxBooked = len(b.jobs) / 3
			j.request.Accepted = b.start.Add(time.Duration(i-len(b.jobs)) * time.Millisecond)
		}
		accepted := slices.Clone(b.jobs)
		rng := rand.New(rand.NewPCG(2, uint64(len(name))))
		for i := range b.jobs { // as a few lanes of a few processes ask
			k := min(len(b.jobs)-1, i+rng.IntN(12))
			b.jobs[i], b.jobs[k] = b.jobs[k], b.jobs[i]
		}
		b.wait, b.back, b.wake = 1200*time.Millisecond, earlyBy(time.Second), true
		b.drain()
		last, asks := map[string]*job{}, 0
		for _, j := range accepted {
			asks += j.asks
			category := j.request.Scopes[len(j.request.Scopes)-1].Name
			if before := last[category]; before != nil && j.asks > 1 && before.admitted.After(j.admitted) {
				s.Errorf("%s: %s was accepted before %s and is admitted %v after it", name, before.request.ID, j.request.ID, before.admitted.Sub(j.admitted))
			}
			if j.asks > 1 {
				last[category] = j
			}
		}
		n := float64(asks) / float64(len(b.jobs))
		s.Logf("%s: %.2f calls for each delivery", name, n)
		if n > 4 {
			s.Errorf("%s: %.2f calls for each delivery", name, n)
		}
	}
}
