package throttletest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// slotsAskedAtOnce: concurrent requests get different slots.
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

// sameHoldsOneSlot: a notification holds one admission or one slot, however often it asks, also
// concurrently.
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

// replayMoves: a granted notification that asks again is granted at the later time and holds one
// admission. If the second request is denied, the old admission stays.
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
		ask(throttle.Refused, "x") // too soon after y
		admissions := s.timeline(s, r).Admissions[throttle.General]
		if len(admissions) != 2 || admissions[0].ID != "x" || !admissions[0].At.Equal(moved.At) ||
			admissions[1].ID != "y" || !admissions[1].At.Equal(y.At) {
			s.Fatalf("after a replay that was denied there are %v", admissions)
		}
		r.Horizon = time.Hour
		slot := ask(throttle.Deferred, "x")
		s.Advance(slot.Left)
		ask(throttle.Granted, "x")
		if t := s.timeline(s, r); len(t.Admissions[throttle.General]) != 2 || len(t.Bookings) > 0 {
			s.Fatalf("after a replay that waited there are %s", describe(t))
		}
	}
}

// eachSpacing calls f for each kind of limits that allow one notification in 10 s, each time with a
// new user. f's ask makes a request for that user.
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

// usedAdmissionStays: a cancel of a notification that was sent and waits again removes its slot,
// but not its admission.
func usedAdmissionStays(s *stage) {
	eachSpacing(s, func(name string, r *throttle.Request, ask func(throttle.Status, string) throttle.Decision) {
		ask(throttle.Granted, "sent")
		other := ask(throttle.Deferred, "other")
		used := *r
		used.ID, used.Used = "sent", true
		if placed := s.cancel(s, used); len(placed.Early) > 0 {
			s.Fatalf("%s: %+v come forward for an admission that was used", name, placed.Early)
		}
		s.Advance(other.Left)
		ask(throttle.Granted, "other")
		again := ask(throttle.Deferred, "sent")
		ask(throttle.Deferred, "behind")
		if placed := s.cancel(s, used); len(placed.Early) != 1 || placed.Early[0].ID != "behind" {
			s.Fatalf("%s: %+v come forward for a slot that is given back", name, placed.Early)
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

// admissionIsKept: a notification that was granted but not sent and asks again is first in its
// line, and the waiting notifications move behind it.
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

// fullLine: a category holds at most MaxBooked slots. The next new notification is rejected and
// holds nothing; with NeverReject it asks again when the last slot of the line is due.
func fullLine(s *stage) {
	const most = 10
	eachSpacing(s, func(name string, r *throttle.Request, ask func(throttle.Status, string) throttle.Decision) {
		r.MaxBooked = most
		ask(throttle.Granted, "first")
		var last throttle.Decision
		for i := range most {
			last = ask(throttle.Deferred, fmt.Sprint("n", i))
		}
		for range 2 {
			ask(throttle.Rejected, "new")
		}
		r.NeverReject = true
		for range 2 {
			if d := ask(throttle.Deferred, "kept"); !d.Slotless || !d.At.Equal(last.At) {
				s.Errorf("%s: with NeverReject: %+v, the last slot is %v", name, d, last.At)
			}
		}
		r.NeverReject = false
		if n := len(s.timeline(s, *r).Bookings); n != most {
			s.Errorf("%s: %d hold slots", name, n)
		}
		r.ID = "n3"
		s.cancel(s, *r)
		ask(throttle.Deferred, "new")
	})
}

// severalAtOnce: one call for several notifications decides like one call for each at that time,
// for waiting, granted and rejected notifications. Only the first grant may differ by some ms.
func severalAtOnce(s *stage) {
	for name, limits := range map[string][]throttle.Scope{
		"a gap and a rate": scopes(policy(time.Second, rate(3, 10*time.Second)), "", throttle.Policy{}),
		"two scopes":       scopes(policy(0, rate(5, 10*time.Second)), "news", policy(2*time.Second)),
		"no limit":         scopes(throttle.Policy{}, "", throttle.Policy{}),
	} {
		var decided [2][]throttle.Decision
		users := [2]string{s.user(), s.user()}
		for _, from := range []int{0, 0, 20, 90} { // the second time all but the first hold an admission or a slot
			for which, user := range users {
				var all []throttle.Request
				for n := from; n < from+70; n++ {
					all = append(all, throttle.Request{
						User: user, ID: fmt.Sprint("n", n), Scopes: limits, Horizon: time.Hour, MaxBooked: 100,
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
			same := one.Status == several.Status && one.Slotless == several.Slotless && one.Scope == several.Scope && one.Rule == several.Rule
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
