package throttletest

import (
	"fmt"
	"slices"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// A plainList implements the rules literally, on a list, for comparison with the limiters.
type plainList []held

// held is an admission that counts in the scopes.
type held struct {
	id     string
	at     time.Time
	scopes []string
}

// times returns the times of a scope's admissions, newest first. It skips the admissions of the ID
// skipped.
func (l plainList) times(scope, skipped string) []time.Time {
	var at []time.Time
	for _, h := range l {
		if h.id != skipped && slices.Contains(h.scopes, scope) {
			at = append(at, h.at)
		}
	}
	slices.SortFunc(at, func(a, b time.Time) int { return b.Compare(a) })
	return at
}

// without returns the list without the ID.
func (l plainList) without(id string) plainList {
	return slices.DeleteFunc(slices.Clone(l), func(h held) bool { return h.id == id })
}

// with returns the list in which the time at is the request's only admission.
func (l plainList) with(r throttle.Request, at time.Time) plainList {
	return append(l.without(r.ID), held{r.ID, at, names(r)})
}

func names(r throttle.Request) []string {
	var names []string
	for _, s := range r.Scopes {
		names = append(names, s.Name)
	}
	return names
}

// limits returns the policy's rules by name: at most n within the period.
func limits(p throttle.Policy) map[string]throttle.Rate {
	rules := map[string]throttle.Rate{}
	if p.MinGap > 0 {
		rules["gap"] = throttle.Rate{Count: 1, Period: p.MinGap}
	}
	for _, r := range p.Rates {
		rules[r.String()] = r
	}
	return rules
}

// first returns the earliest time, not before from, at which the list allows the request, and the
// limits that set this time, as SCOPE RULE.
func (l plainList) first(r throttle.Request, from time.Time) (at time.Time, because []string) {
	at = from
	for _, s := range r.Scopes {
		instants := l.times(s.Name, r.ID)
		for name, rule := range limits(s.Policy) {
			if len(instants) < rule.Count {
				continue
			}
			free := instants[rule.Count-1].Add(rule.Period)
			if !free.After(from) {
				continue
			}
			switch c := free.Compare(at); {
			case c > 0:
				at, because = free, []string{s.Name + " " + name}
			case c == 0:
				because = append(because, s.Name+" "+name)
			}
		}
	}
	return at, because
}

// fault describes a limit that an admission of the request at the time would violate; "" for none.
func (l plainList) fault(r throttle.Request, at time.Time) string {
	for _, s := range r.Scopes {
		instants := append(l.times(s.Name, r.ID), at)
		if fault := windowFault(instants, s.Policy, at); fault != "" {
			return fmt.Sprintf("%s at %d in scope %s: %s", r.ID, at.UnixMicro(), s.Name, fault)
		}
	}
	return ""
}

// slip is how much too short a window may be: an admission in the future may move by a
// microsecond at each repeated request.
const slip = 20 * time.Microsecond

// windowFault describes a window of n+1 times that is shorter than a rate's period. It checks only
// windows that contain the time holds; if holds is zero, all windows.
func windowFault(instants []time.Time, p throttle.Policy, holds time.Time) string {
	slices.SortFunc(instants, func(a, b time.Time) int { return a.Compare(b) })
	for name, rule := range limits(p) {
		for i := 0; i+rule.Count < len(instants); i++ {
			first, last := instants[i], instants[i+rule.Count]
			if !holds.IsZero() && (holds.Before(first) || holds.After(last)) {
				continue
			}
			if span := last.Sub(first); span < rule.Period-slip {
				return fmt.Sprintf("%s: %d admissions from %d on span %v", name, rule.Count+1, first.UnixMicro(), span)
			}
		}
	}
	return ""
}

// remaining returns how many more admissions each rate of the request allows at that time.
func (l plainList) remaining(r throttle.Request, at time.Time) []throttle.Remaining {
	var left []throttle.Remaining
	for _, s := range r.Scopes {
		for _, rate := range s.Policy.Rates {
			used := 0
			for _, instant := range l.times(s.Name, "") {
				if instant.After(at.Add(-rate.Period)) {
					used++
				}
			}
			left = append(left, throttle.Remaining{Scope: s.Name, Rate: rate, Count: max(0, rate.Count-used)})
		}
	}
	return left
}

// Ideal returns the admission times of requests that all ask at the start: each as early as its
// limits allow, in order.
func Ideal(requests []throttle.Request, start time.Time) []time.Time {
	at := make([]time.Time, len(requests))
	var list plainList
	waiting := make([]int, len(requests))
	for i := range requests {
		waiting[i] = i
	}
	for now := start; len(waiting) > 0; {
		best, bestAt := 0, time.Time{}
		seen := map[string]bool{} // requests with the same scopes have the same answer
		for k, i := range waiting {
			key := fmt.Sprint(names(requests[i]))
			if seen[key] {
				continue
			}
			seen[key] = true
			if free, _ := list.first(requests[i], now); bestAt.IsZero() || free.Before(bestAt) {
				best, bestAt = k, free
			}
		}
		i := waiting[best]
		waiting = slices.Delete(waiting, best, best+1)
		now, at[i] = bestAt, bestAt
		list = append(list, held{requests[i].ID, bestAt, names(requests[i])})
	}
	return at
}
