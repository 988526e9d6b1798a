package throttletest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// thousandSlots: notifications that are denied one after another have slots of
// their own, in the order they asked, and each fits behind the one before.
func thousandSlots(s *stage) {
	many := s.size(1000)
	for _, tt := range []struct {
		name   string
		scopes []throttle.Scope
	}{
		{"general limits", scopes(policy(time.Second, rate(10, time.Minute)), "", throttle.Policy{})},
		{"a category's limits", scopes(policy(0), "c", policy(0, rate(1, time.Minute)))},
	} {
		r := throttle.Request{User: s.user(), Scopes: tt.scopes, Horizon: 10000 * time.Hour}
		var list plainList
		last := time.Time{}
		for i := range many {
			r.ID = fmt.Sprint("n", i)
			d := s.acquire(s, r)
			if d.Status == throttle.Deferred && d.Rule == "" {
				s.Fatalf("%s: the slot of the %d-th has no rule: %+v", tt.name, i, d)
			}
			if !d.At.After(last) {
				s.Fatalf("%s: the %d-th has %v, after one that has %v", tt.name, i, d.At, last)
			}
			if len(list) > 10 {
				list = list[len(list)-10:] // the longest that a rule looks back
			}
			if fault := list.fault(r, d.At); fault != "" {
				s.Fatalf("%s: %s", tt.name, fault)
			}
			list, last = append(list, held{r.ID, d.At, names(r)}), d.At
		}
		if n := len(s.timeline(s, r).Bookings); n < many-10 {
			s.Fatalf("%s: only %d wait", tt.name, n)
		}
	}
}

// slotsAskedAtOnce: notifications that ask at the same time have slots of
// their own too.
func slotsAskedAtOnce(s *stage) {
	r := throttle.Request{User: s.user(), Horizon: 48 * time.Hour,
		Scopes: scopes(policy(10*time.Second, rate(3, time.Minute)), "", throttle.Policy{})}
	const many = 120
	limiters := []throttle.Planner{s.Limiter}
	if s.Peer != nil {
		limiters = append(limiters, s.Peer)
	}
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			r := r
			for i := g; i < many; i += 6 {
				r.ID = fmt.Sprint("n", i)
				if _, err := limiters[g%len(limiters)].Acquire(context.Background(), r); err != nil {
					s.Errorf("acquire: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	t := s.timeline(s, r)
	var instants []time.Time
	for _, a := range t.Admissions[throttle.General] {
		instants = append(instants, a.At)
	}
	for _, b := range t.Bookings {
		instants = append(instants, b.Slot)
	}
	if len(instants) != many {
		s.Fatalf("%d of %d have a slot", len(instants), many)
	}
	if fault := windowFault(instants, r.Scopes[0].Policy, time.Time{}); fault != "" {
		s.Fatal(fault)
	}
}

// sameHoldsOneSlot: however often, and from however many at once, a
// notification asks, it holds one admission or one slot.
func sameHoldsOneSlot(s *stage) {
	limiters := []throttle.Planner{s.Limiter}
	if s.Peer != nil {
		limiters = append(limiters, s.Peer)
	}
	for range 20 {
		r := throttle.Request{User: s.user(), Horizon: 48 * time.Hour,
			Scopes: scopes(policy(time.Hour), "c", policy(0, rate(2, 2*time.Hour)))}
		for n, want := range []throttle.Status{throttle.Granted, throttle.Deferred, throttle.Deferred} {
			r.ID = fmt.Sprint("n", n)
			decisions := make([]throttle.Decision, 6)
			var wg sync.WaitGroup
			for g := range decisions {
				wg.Go(func() {
					d, err := limiters[g%len(limiters)].Acquire(context.Background(), r)
					if err != nil {
						s.Errorf("acquire: %v", err)
					}
					decisions[g] = d
				})
			}
			wg.Wait()
			for _, d := range append(decisions, s.acquire(s, r)) {
				if d.Status != want || want == throttle.Deferred && !d.At.Equal(decisions[0].At) {
					s.Fatalf("%s asks at once and has %+v and %+v", r.ID, decisions[0], d)
				}
			}
		}
		t := s.timeline(s, r)
		if len(t.Admissions[throttle.General]) != 1 || len(t.Admissions["c"]) != 1 || len(t.Bookings) != 2 {
			s.Fatalf("three that asked several times hold %s", describe(t))
		}
	}
}

// replayMoves: who was granted and asks again is granted again, at the later
// instant, and holds one admission. When it is denied it holds the old one.
func replayMoves(s *stage) {
	for _, category := range []string{"", "c"} {
		r := throttle.Request{User: s.user(), Scopes: scopes(policy(10*time.Second), category, policy(0, rate(2, 25*time.Second)))}
		ask := func(status throttle.Status, id string) throttle.Decision {
			r.ID = id
			return s.want(s, status, r)
		}
		ask(throttle.Granted, "x")
		s.Advance(5 * time.Second)
		moved := ask(throttle.Granted, "x")
		s.Advance(6 * time.Second)
		if d := ask(throttle.Refused, "y"); !d.At.Equal(moved.At.Add(10 * time.Second)) {
			s.Fatalf("behind a moved admission at %v another waits until %v", moved.At, d.At)
		}
		s.Advance(4 * time.Second)
		y := ask(throttle.Granted, "y")
		s.Advance(time.Second)
		ask(throttle.Refused, "x") // y is too near
		admissions := s.timeline(s, r).Admissions[throttle.General]
		if len(admissions) != 2 || admissions[0].ID != "x" || !admissions[0].At.Equal(moved.At) ||
			admissions[1].ID != "y" || !admissions[1].At.Equal(y.At) {
			s.Fatalf("after a replay that was denied there are %v", admissions)
		}
		r.Horizon, r.Wait = time.Hour, time.Minute
		ask(throttle.Deferred, "x") // what may have gone out is not put off to an admission ahead
		r.Wait = 0
		slot := ask(throttle.Deferred, "x")
		s.Advance(slot.Left)
		ask(throttle.Granted, "x")
		if t := s.timeline(s, r); len(t.Admissions[throttle.General]) != 2 || len(t.Bookings) > 0 {
			s.Fatalf("after a replay that waited there are %s", describe(t))
		}
	}
}

// eachSpacing has a user of its own meet each kind of limits that let one pass in
// 10 s. ask asks for a notification of r's.
func eachSpacing(s *stage, f func(name string, r *throttle.Request, ask func(throttle.Status, string) throttle.Decision)) {
	for _, tt := range []struct {
		name   string
		scopes []throttle.Scope
	}{
		{"general limits", scopes(policy(10*time.Second), "", throttle.Policy{})},
		{"both", scopes(policy(10*time.Second), "c", policy(0, rate(2, time.Second)))},
		{"a category's limits", scopes(policy(0), "c", policy(10*time.Second))},
	} {
		r := &throttle.Request{User: s.user(), Scopes: tt.scopes, Horizon: time.Hour}
		ask := func(status throttle.Status, id string) throttle.Decision {
			r.ID = id
			return s.want(s, status, *r)
		}
		f(tt.name, r, ask)
	}
}

// heirHasTheSlot: a notification that takes another's place comes for its slot,
// those behind stay where they are, and the other one starts anew. Of two places the
// earlier one is its own, and those behind the later one move up.
func heirHasTheSlot(s *stage) {
	eachSpacing(s, func(name string, r *throttle.Request, ask func(throttle.Status, string) throttle.Decision) {
		inherit := func(id, from string) []throttle.Booking {
			r.ID = id
			moved, err := s.Limiter.Inherit(context.Background(), *r, from)
			if err != nil {
				s.Fatalf("%s: inherit: %v", name, err)
			}
			return moved
		}
		ask(throttle.Granted, "first")
		old := ask(throttle.Deferred, "old")
		behind := ask(throttle.Deferred, "behind")
		inherit("heir", "old")
		inherit("heir", "nobody")
		heir := ask(throttle.Deferred, "heir")
		if !heir.At.Equal(old.At) || !heir.Slot.Equal(old.At) {
			s.Fatalf("%s: the heir of a slot at %v has %+v", name, old.At, heir)
		}
		if d := ask(throttle.Deferred, "behind"); !d.At.Equal(behind.At) {
			s.Fatalf("%s: who waits behind moved from %v to %v", name, behind.At, d.At)
		}
		if d := ask(throttle.Deferred, "old"); !d.At.After(behind.At) || !d.Slot.IsZero() {
			s.Fatalf("%s: who gave its slot away has %+v", name, d)
		}
		// a later one does not push it back, and leaves no hole
		if moved := inherit("heir", "behind"); len(moved) != 1 || moved[0].ID != "old" || moved[0].Slot.Sub(behind.At).Abs() > 20*time.Millisecond {
			s.Fatalf("%s: who waited behind the slot at %v moves to %v", name, behind.At, moved)
		}
		if d := ask(throttle.Deferred, "heir"); !d.At.Equal(heir.At) {
			s.Fatalf("%s: the heir of a later slot moved to %v", name, d.At)
		}
		if n := len(s.timeline(s, *r).Bookings); n != 2 {
			s.Fatalf("%s: %d wait, want heir and old", name, n)
		}
		s.Advance(heir.Left)
		ask(throttle.Granted, "heir")
		if s.Lasting != nil {
			if lasting := s.Lasting(); len(lasting) > 0 {
				s.Fatalf("%s: without an expiry: %v", name, lasting)
			}
		}
	})
}

// usedAdmissionStays: a notification that was sent and waits to be sent again
// gives its slot back when it is cancelled, and not the admission.
func usedAdmissionStays(s *stage) {
	eachSpacing(s, func(name string, r *throttle.Request, ask func(throttle.Status, string) throttle.Decision) {
		ask(throttle.Granted, "sent")
		other := ask(throttle.Deferred, "other")
		used := *r
		used.ID, used.Used = "sent", true
		if moved := s.cancel(s, used); len(moved) > 0 {
			s.Fatalf("%s: %+v come forward for an admission that was used", name, moved)
		}
		s.Advance(other.Left)
		ask(throttle.Granted, "other")
		again := ask(throttle.Deferred, "sent")
		ask(throttle.Deferred, "behind")
		if moved := s.cancel(s, used); len(moved) != 1 || moved[0].ID != "behind" {
			s.Fatalf("%s: %+v come forward for a slot that is given back", name, moved)
		}
		if d := ask(throttle.Deferred, "behind"); d.At.Sub(again.At).Abs() > 10*time.Millisecond {
			s.Fatalf("%s: who is behind has %v, want about %v", name, d.At, again.At)
		}
		for scope, admissions := range s.timeline(s, *r).Admissions {
			if len(admissions) != 2 || admissions[0].ID != "sent" {
				s.Fatalf("%s: scope %s has %+v", name, scope, admissions)
			}
		}
	})
}

// admissionIsKept: a notification that was let through and comes again, as it had
// no connection, goes ahead of those who wait behind it, and they follow.
func admissionIsKept(s *stage) {
	eachSpacing(s, func(name string, r *throttle.Request, ask func(throttle.Status, string) throttle.Decision) {
		ask(throttle.Granted, "first")
		next := ask(throttle.Deferred, "next")
		ask(throttle.Deferred, "behind")
		const late = 300 * time.Millisecond
		s.Advance(late)
		again := ask(throttle.Granted, "first")
		s.Advance(next.Left - late)
		moved := ask(throttle.Deferred, "next")
		if d := moved.At.Sub(again.At); d < 10*time.Second || d > 10*time.Second+10*time.Millisecond {
			s.Fatalf("%s: the next one has %v, %v after the one before it", name, moved.At, d)
		}
		if d := ask(throttle.Deferred, "behind"); d.At.Sub(moved.At) < 10*time.Second {
			s.Fatalf("%s: who is behind has %v, and the one ahead of it %v", name, d.At, moved.At)
		}
	})
}
