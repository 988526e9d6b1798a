package throttle

import (
	"cmp"
	"slices"
	"time"
)

// A Window is what one limit of a scope holds: of Count admissions in any
// window of the length Period, Used are in the one that ends now, or with the
// newest admission where that is let through for an instant ahead.
type Window struct {
	Rule   string // "gap", or a rate as it is written
	Count  int    // 1 for the gap
	Period time.Duration
	Used   int
	// AtLeast says that Used may be more: the timeline shows its newest
	// TimelineEntries admissions only.
	AtLeast bool
	// Free is when this limit alone admits the next one: the timeline's Now when
	// it does already, zero when the timeline does not reach back far enough.
	Free time.Time
}

// Windows answers the scope's limits in the order of its policy, the gap first
// if there is one. What waits is not counted: it has not been sent.
func (t *Timeline) Windows(s Scope) []Window {
	sent := t.Admissions[s.Name]
	cut := len(sent) >= TimelineEntries
	end := t.Now
	if n := len(sent); n > 0 && sent[n-1].At.After(end) {
		end = sent[n-1].At
	}
	var windows []Window
	for i, r := range s.Policy.appendRules(nil) {
		if r.period == 0 {
			continue
		}
		w := Window{Rule: s.Policy.ruleName(i), Count: r.n, Period: time.Duration(r.period) * time.Microsecond, Free: t.Now}
		first, _ := slices.BinarySearchFunc(sent, end.Add(-w.Period), func(a Admission, since time.Time) int {
			if a.At.After(since) {
				return 1
			}
			return -1
		})
		w.Used = len(sent) - first
		w.AtLeast = cut && first == 0
		if w.Count <= len(sent) {
			if free := sent[len(sent)-w.Count].At.Add(w.Period); free.After(t.Now) {
				w.Free = free
			}
		} else if w.AtLeast {
			w.Free = time.Time{}
		}
		windows = append(windows, w)
	}
	return windows
}

// Bound names the limit that each of the timeline's bookings in the scope waits
// for, by ID: the rule that is the last to let it pass after those sent and
// those who wait ahead of it. It is "" when none of what the timeline shows
// holds the booking back: those of a category who wait for the general limits
// count for its own too, and stand among the general bookings.
func (t *Timeline) Bound(s Scope) map[string]string {
	ahead := make([]int64, 0, len(t.Admissions[s.Name])+len(t.Bookings))
	for _, a := range t.Admissions[s.Name] {
		ahead = append(ahead, a.At.UnixMicro())
	}
	rules := s.Policy.appendRules(nil)
	bound := map[string]string{}
	for _, b := range t.Bookings { // by slot
		if b.Scope != s.Name {
			continue
		}
		slot, latest, name := b.Slot.UnixMicro(), int64(0), ""
		// an admission may lie ahead of a slot that is due
		n, _ := slices.BinarySearchFunc(ahead, slot, cmp.Compare[int64])
		for i, r := range rules {
			if r.period == 0 || r.n > n {
				continue
			}
			if free := ahead[n-r.n] + r.period; free > latest {
				latest, name = free, s.Policy.ruleName(i)
			}
		}
		if name == "" && s.Name != General {
			name = s.Policy.only()
		}
		bound[b.ID] = name
		ahead = slices.Insert(ahead, n, slot)
	}
	return bound
}

// only names the policy's limit when there is a single one.
func (p Policy) only() string {
	switch {
	case p.MinGap > 0 && len(p.Rates) == 0:
		return GapRule
	case p.MinGap == 0 && len(p.Rates) == 1:
		return p.ruleName(1)
	}
	return ""
}
