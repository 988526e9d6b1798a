package throttletest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// acceptedFirst: of a category, those that wait are admitted in the order in which
// they were accepted, whoever asks first. Only one that goes at its first call
// without any wait may be ahead of its turn.
func acceptedFirst(s *stage) {
	for _, tt := range []struct {
		name    string
		general throttle.Policy
		own     []throttle.Policy
	}{
		{"a gap", policy(time.Second), []throttle.Policy{policy(0)}},
		{"a gap and a rate", policy(300*time.Millisecond, rate(10, 5*time.Second)), []throttle.Policy{policy(0)}},
		{"one a day", policy(0, rate(1, 24*time.Hour)), []throttle.Policy{policy(0)}},
		{"the category's", policy(0), []throttle.Policy{policy(time.Second, rate(5, 10*time.Second))}},
		{"three categories", policy(300*time.Millisecond, rate(20, 10*time.Second)), []throttle.Policy{
			policy(0, rate(5, 10*time.Second)), policy(2 * time.Second), policy(0)}},
	} {
		for _, early := range []time.Duration{0, time.Second} {
			name := fmt.Sprintf("%s, woken %v early", tt.name, early)
			var kinds [][]throttle.Scope
			for i, own := range tt.own {
				kinds = append(kinds, scopes(tt.general, []string{"a", "b", "c"}[i], own))
			}
			b := s.backlog(s.size(200)/len(kinds), kinds...)
			for i, j := range b.jobs {
				j.request.Accepted = b.start.Add(time.Duration(i-len(b.jobs)) * time.Millisecond)
			}
			accepted := slices.Clone(b.jobs)
			rng := rand.New(rand.NewPCG(1, uint64(len(name))))
			for i := range b.jobs { // as a few lanes of a few processes ask
				k := min(len(b.jobs)-1, i+rng.IntN(12))
				b.jobs[i], b.jobs[k] = b.jobs[k], b.jobs[i]
			}
			if early > 0 {
				b.wait, b.back = 1200*time.Millisecond, earlyBy(early)
			}
			b.drain()
			last := map[string]*job{}
			for _, j := range accepted {
				if j.asks == 1 {
					continue
				}
				category := j.request.Scopes[1].Name
				if before := last[category]; before != nil && before.admitted.After(j.admitted) {
					s.Errorf("%s: %s was accepted before %s and is admitted %v after it", name, before.request.ID, j.request.ID, before.admitted.Sub(j.admitted))
				}
				last[category] = j
			}
			asks := 0
			for _, j := range b.jobs {
				asks += j.asks
			}
			// one call more for whoever others come in before: it learns its later slot at the old one
			n := float64(asks) / float64(len(b.jobs))
			s.Logf("%s: %.2f calls for each delivery", name, n)
			if n > 3 {
				s.Errorf("%s: %.2f calls for each delivery", name, n)
			}
		}
	}
}

// admissionKeepsItsPlace: what was let through and was not sent at its instant may
// go now, as far as those sent allow, whoever waits behind it.
func admissionKeepsItsPlace(s *stage) {
	for _, category := range []string{"", "c"} {
		r := throttle.Request{User: s.user(), Scopes: scopes(policy(10*time.Second), category, policy(0, rate(2, 15*time.Second))), Horizon: time.Hour}
		ask := func(status throttle.Status, id string) throttle.Decision {
			r.ID = id
			return s.want(s, status, r)
		}
		ask(throttle.Granted, "late")
		waits := ask(throttle.Deferred, "waits")
		s.Advance(4 * time.Second)
		if d := ask(throttle.Granted, "late"); d.Left > 0 {
			s.Fatalf("what was let through has %+v", d)
		}
		s.Advance(waits.Left - 4*time.Second)
		again := ask(throttle.Deferred, "waits")
		if again.Left < 3*time.Second || again.Left > 5*time.Second {
			s.Fatalf("who waits behind it has %+v", again)
		}
		s.Advance(again.Left)
		ask(throttle.Granted, "waits")
		ask(throttle.Deferred, "late") // now another one is too near
	}
}

// slotsSettle: what has to wait gets no slot so soon that who was accepted earlier, and
// is on its way, comes too late for it.
func slotsSettle(s *stage) {
	r := throttle.Request{
		User: s.user(), Scopes: scopes(policy(20*time.Millisecond), "", throttle.Policy{}), Horizon: time.Hour, Wait: time.Second,
	}
	ask := func(status throttle.Status, id string) throttle.Decision {
		r.ID = id
		return s.want(s, status, r)
	}
	now := ask(throttle.Granted, "first").At
	accepted := func(i int) string {
		r.Accepted = now.Add(time.Duration(i) * time.Microsecond)
		return fmt.Sprint("n", i)
	}
	for _, i := range []int{2, 3, 1} {
		ask(throttle.Deferred, accepted(i))
	}
	s.Advance(90 * time.Millisecond)
	ask(throttle.Deferred, accepted(0))
	later := now.Add(time.Hour)
	for i := 3; i >= 0; i-- {
		d := ask(throttle.Granted, accepted(i))
		if !d.At.Before(later) {
			s.Errorf("n%d was accepted before the next one, and is admitted %v after it", i, d.At.Sub(later))
		}
		later = d.At
	}
	r.User, r.Wait = s.user(), 0
	ask(throttle.Granted, "first")
	for i := range 2 {
		ask(throttle.Deferred, accepted(i))
	}
	r.ID = "n0"
	if _, err := s.Limiter.Cancel(s.Context(), r); err != nil {
		s.Fatal(err)
	}
	if d := ask(throttle.Deferred, accepted(1)); d.Left < 100*time.Millisecond {
		s.Errorf("who comes forward has %v left", d.Left)
	}
}

// refusedTakesNoSlot: those accepted earlier that are refused, as even the first slot
// comes after their end, leave those that wait where they are.
func refusedTakesNoSlot(s *stage) {
	r := throttle.Request{User: s.user(), Scopes: scopes(policy(time.Minute), "", throttle.Policy{}), Horizon: time.Hour}
	ask := func(status throttle.Status, id string) throttle.Decision {
		r.ID = id
		return s.want(s, status, r)
	}
	now := ask(throttle.Granted, "first").At
	var slots []time.Time
	for i := range 3 {
		r.Accepted = now.Add(time.Duration(i) * time.Microsecond)
		slots = append(slots, ask(throttle.Deferred, fmt.Sprint("waits", i)).At)
	}
	r.Horizon = 30 * time.Second
	for i := range 3 {
		r.Accepted = now.Add(time.Duration(i)*time.Microsecond - time.Minute)
		ask(throttle.Refused, fmt.Sprint("earlier", i))
	}
	r.Horizon = time.Hour
	for i, slot := range slots {
		r.Accepted = now.Add(time.Duration(i) * time.Microsecond)
		if d := ask(throttle.Deferred, fmt.Sprint("waits", i)); !d.At.Equal(slot) {
			s.Errorf("waits%d has its slot at %v, which was at %v", i, d.At, slot)
		}
	}
}

// severalAtOnce: one call for several gives each what calls for them one after another at
// that instant would, whatever waits, was let through or finds no room. A first call alone
// may be let through some milliseconds later.
func severalAtOnce(s *stage) {
	for name, limits := range map[string][]throttle.Scope{
		"a gap and a rate": scopes(policy(time.Second, rate(3, 10*time.Second)), "", throttle.Policy{}),
		"two scopes":       scopes(policy(0, rate(5, 10*time.Second)), "news", policy(2*time.Second)),
		"no limit":         scopes(throttle.Policy{}, "", throttle.Policy{}),
	} {
		var decided [2][]throttle.Decision
		users := [2]string{s.user(), s.user()}
		accepted := s.acquire(s, throttle.Request{User: s.user(), ID: "clock", Scopes: limits}).At
		for _, from := range []int{0, 0, 20, 90} { // the second time all but the first hold something
			for which, user := range users {
				var all []throttle.Request
				for n := from; n < from+70; n++ {
					all = append(all, throttle.Request{
						User: user, ID: fmt.Sprint("n", n), Accepted: accepted.Add(time.Duration(n) * time.Microsecond), Scopes: limits,
						Horizon: time.Hour, Wait: time.Second, MaxBooked: 100,
					})
				}
				for len(all) > 0 {
					some := make([]throttle.Decision, 1)
					if which == 0 {
						some[0] = s.acquire(s, all[0])
					} else if got, err := s.Limiter.AcquireAll(context.Background(), all); err != nil || len(got) == 0 {
						s.Fatalf("%s: %d decisions, %v", name, len(got), err)
					} else {
						some = got
					}
					decided[which], all = append(decided[which], some...), all[len(some):]
				}
			}
			s.Advance(500 * time.Millisecond)
		}
		for i, one := range decided[0] {
			several := decided[1][i]
			same := one.Status == several.Status && one.Full == several.Full && one.Scope == several.Scope && one.Rule == several.Rule
			if !same || one.At.Sub(several.At).Abs() > 20*time.Millisecond {
				s.Errorf("%s: number %d is decided alone %+v, with others %+v", name, i, one, several)
				break
			}
		}
	}
	r := throttle.Request{User: s.user(), ID: "n", Scopes: scopes(policy(time.Second), "", throttle.Policy{})}
	other := r
	other.User = s.user()
	for name, all := range map[string][]throttle.Request{"none": nil, "of two users": {r, other}, "twice the same": {r, r}} {
		if got, err := s.Limiter.AcquireAll(context.Background(), all); err == nil {
			s.Errorf("%s: %+v", name, got)
		}
	}
}
