package throttle

import (
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
