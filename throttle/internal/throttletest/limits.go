package throttletest

import (
	"fmt"
	"slices"
	"time"

	"github.com/pushpace/pushpace/throttle"
	"pgregory.net/rapid"
)

// A history is a random sequence of calls for one user, with the list of its admissions.
type history struct {
	*stage
	user       string
	list       plainList
	policies   map[string]throttle.Policy
	categories []string
	// which requests have no general limits: some (workers that disagree), none or all
	alone aloneness
}

type aloneness int

const (
	someAlone aloneness = iota
	noneAlone
	allAlone
)

func (s *stage) history(rt *rapid.T) *history {
	h := &history{stage: s, user: s.user(), policies: map[string]throttle.Policy{}, categories: []string{"", "a", "b"}}
	for _, name := range []string{throttle.General, "a", "b"} {
		h.policies[name] = drawPolicy(rt, s.unit(), name)
	}
	return h
}

// request draws a request for one of 18 notifications. The ID determines the category.
func (h *history) request(rt *rapid.T) throttle.Request {
	n := rapid.IntRange(0, 17).Draw(rt, "id")
	r := throttle.Request{User: h.user, ID: fmt.Sprint("n", n)}
	switch n % 6 {
	case 0:
		r.Scopes = h.scopes(throttle.General)
	case 1, 2, 3:
		r.Scopes = h.scopes(throttle.General, "a")
	default:
		r.Scopes = h.scopes(throttle.General, "b")
	}
	if h.alone == allAlone || h.alone == someAlone && n%6 == 1 {
		r.Scopes = r.Scopes[1:]
	}
	if len(r.Scopes) == 0 {
		r.Scopes = h.scopes("c")
	}
	return r
}

func (h *history) scopes(names ...string) []throttle.Scope {
	var scopes []throttle.Scope
	for _, name := range names {
		scopes = append(scopes, throttle.Scope{Name: name, Policy: h.policies[name]})
	}
	return scopes
}

// change sometimes redraws a policy.
func (h *history) change(rt *rapid.T) {
	if rapid.IntRange(0, 15).Draw(rt, "change") == 0 {
		name := rapid.SampledFrom([]string{throttle.General, "a", "b"}).Draw(rt, "whose")
		h.policies[name] = drawPolicy(rt, h.unit(), name)
	}
}

// limitsHold: in any history, each admission fits among the current admissions by the policies of
// its request.
func limitsHold(s *stage) {
	s.check(func(rt *rapid.T) {
		h := s.history(rt)
		for range rapid.IntRange(1, 60).Draw(rt, "calls") {
			s.passing(rt)
			h.change(rt)
			r := h.request(rt)
			r.Horizon = time.Duration(rapid.SampledFrom([]float64{0, 10, 3600, 3600}).Draw(rt, "horizon") * float64(s.unit()))
			switch rapid.IntRange(0, 9).Draw(rt, "call") {
			case 0:
				s.cancel(rt, r)
				h.list = h.list.without(r.ID)
			case 1:
				s.replan(rt, r)
			default:
				d := s.acquire(rt, r)
				for _, b := range d.Early {
					if b.ID == r.ID {
						rt.Fatalf("%s is told of itself: %+v", r.ID, d)
					}
				}
				switch d.Status {
				case throttle.Granted:
					if fault := h.list.fault(r, d.At); fault != "" {
						rt.Fatalf("%s", fault)
					}
					if d.Left > 0 {
						rt.Fatalf("%s is granted %v ahead", r.ID, d.Left)
					}
					h.list = h.list.with(r, d.At)
				case throttle.Deferred:
					if ahead := d.At.Sub(d.Now); ahead <= 0 || ahead > r.Horizon || d.Left > ahead {
						rt.Fatalf("%s is deferred by %v with a horizon of %v", r.ID, d.Left, r.Horizon)
					}
				case throttle.Refused:
					if d.At.Sub(d.Now) <= r.Horizon {
						rt.Fatalf("%s is refused for %v with a horizon of %v", r.ID, d.Left, r.Horizon)
					}
				}
				// sometimes ask again exactly in time
				if d.Status == throttle.Deferred && s.Advance != nil && rapid.Bool().Draw(rt, "to the slot") {
					s.Advance(d.Left)
				}
			}
		}
	})
}

func instantOf(l plainList, id string) time.Time {
	for _, h := range l {
		if h.id == id {
			return h.at
		}
	}
	return time.Time{}
}

// answersOfAPlainList: if no notification waits, a new one is granted exactly if the list allows
// it, and otherwise refused with one of the violated limits.
func answersOfAPlainList(s *stage) {
	s.check(func(rt *rapid.T) {
		h := s.history(rt)
		for i := range rapid.IntRange(1, 60).Draw(rt, "calls") {
			s.passing(rt)
			h.change(rt)
			r := h.request(rt)
			if rapid.IntRange(0, 9).Draw(rt, "again") > 0 {
				r.ID = fmt.Sprint("new", i) // mostly new notifications
			}
			var d throttle.Decision
			call := rapid.SampledFrom([]string{"acquire", "acquire", "acquire", "cancel"}).Draw(rt, "call")
			switch call {
			case "acquire":
				d = s.acquire(rt, r)
			case "cancel":
				if placed := s.cancel(rt, r); len(placed.Early) > 0 {
					rt.Fatalf("nobody waits, but %v come forward", placed.Early)
				}
				h.list = h.list.without(r.ID)
				continue
			}
			h.compare(rt, r, d)
			if call == "acquire" && d.Status == throttle.Granted {
				h.list = h.list.with(r, d.At)
			}
		}
	})
}

// compare compares a decision about a new notification with the list's answer.
func (h *history) compare(rt *rapid.T, r throttle.Request, d throttle.Decision) {
	switch d.Status {
	case throttle.Granted:
		if fault := h.list.fault(r, d.At); fault != "" {
			rt.Fatalf("%s", fault)
		}
	case throttle.Refused:
		now := d.Now
		from := now
		if own := instantOf(h.list, r.ID); own.After(from) {
			from = own // an admission in the future does not move earlier
		}
		at, because := h.list.first(r, from)
		if !at.After(now) {
			rt.Fatalf("%s is refused at %d although the list allows it: %+v", r.ID, now.UnixMicro(), d)
		}
		if !d.At.Equal(at) {
			rt.Fatalf("%s is refused until %d, by the list until %d (%v later): %+v\n%s\n%v", r.ID, d.At.UnixMicro(), at.UnixMicro(), d.At.Sub(at), d, describe(h.timeline(rt, r)), h.list)
		}
		if !slices.Contains(because, d.Scope+" "+d.Rule) {
			rt.Fatalf("%s is refused by %s %s, by the list because of %v", r.ID, d.Scope, d.Rule, because)
		}
	default:
		rt.Fatalf("%s is %s with a horizon of 0", r.ID, d.Status)
	}
}

// limitsReachBack: an admission counts for exactly the horizon, whatever was admitted after it.
func limitsReachBack(s *stage) {
	for _, category := range []string{"", "c"} {
		day := policy(0, rate(3, Horizon))
		r := throttle.Request{User: s.user(), Scopes: scopes(day, category, day)}
		ask := func(status throttle.Status, id string) throttle.Decision {
			r.ID = id
			return s.want(s, status, r)
		}
		first := ask(throttle.Granted, "first")
		s.Advance(Horizon / 2)
		ask(throttle.Granted, "second")
		s.Advance(Horizon/2 - time.Second)
		ask(throttle.Granted, "third")
		s.Advance(time.Second / 2)
		d := ask(throttle.Refused, "fourth")
		if !d.At.Equal(first.At.Add(Horizon)) {
			s.Fatalf("after an admission at %v the fourth waits until %v", first.At, d.At)
		}
		s.Advance(d.Left)
		ask(throttle.Granted, "fourth")
		ask(throttle.Refused, "fifth")
	}
}

// remainingIsCounted: a report equals the list's counts at that time.
func remainingIsCounted(s *stage) {
	s.check(func(rt *rapid.T) {
		h := s.history(rt)
		for i := range rapid.IntRange(1, 30).Draw(rt, "calls") {
			s.passing(rt)
			r := h.request(rt)
			r.ID, r.Report = fmt.Sprint("new", i), true
			d := s.acquire(rt, r)
			at := d.Now
			if d.Status == throttle.Granted {
				h.list = h.list.with(r, d.At)
			}
			if want := h.list.remaining(r, at); !slices.Equal(d.Remaining, want) {
				rt.Fatalf("%s leaves %v, by the list %v: %+v", r.ID, d.Remaining, want, d)
			}
		}
	})
}
