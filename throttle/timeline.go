package throttle

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"time"
)

// A waiting is a booking, and whether it is of the request's category.
type waiting struct {
	Booking
	of  string // its category
	own bool
}

// newTimeline is what the request's scopes have of the model: the nearest of those that
// wait in any of them, with the scope and the rule that let them be no earlier.
func newTimeline(r *Request, now time.Time, u *model) Timeline {
	t := Timeline{Now: now, Admissions: map[string][]Entry{}, marks: map[string]*view{}}
	t.quietly(r, u)
	general, own := r.policies()
	var all []waiting
	for name, c := range u.classes {
		for k, at := range c.slots {
			if general != nil || own != nil && name == r.class() {
				all = append(all, waiting{Booking{ID: c.queue[k].id, Slot: micros(at)}, name, name == r.class()})
			}
		}
	}
	slices.SortFunc(all, func(a, b waiting) int { return cmp.Or(a.Slot.Compare(b.Slot), cmp.Compare(a.ID, b.ID)) })
	all = all[:min(len(all), TimelineEntries)]
	for _, s := range r.Scopes {
		v := &view{name: s.Name, policy: s.Policy, rules: s.Policy.appendRules(nil)}
		sent, list := u.sent[s.Name], []Entry{}
		for _, a := range sent[max(0, len(sent)-TimelineEntries):] {
			v.marks = append(v.marks, mark{at: a.at, id: a.id})
			list = append(list, Entry{a.id, micros(a.at)})
		}
		for _, w := range all {
			if w.own || s.Name == General {
				v.marks = append(v.marks, mark{at: w.Slot.UnixMicro(), waits: true, id: w.ID})
			}
		}
		slices.SortFunc(v.marks, mark.compare)
		t.Admissions[s.Name], t.marks[s.Name] = list, v
	}
	for _, w := range all {
		var under []*view
		if w.own {
			w.Category = r.class()
		}
		if w.own && own != nil {
			under = append(under, t.marks[r.class()])
		}
		if general != nil {
			under = append(under, t.marks[General])
		}
		w.Scope = under[len(under)-1].name
		if scope, rule, after := binding(under, w.Slot.UnixMicro()); scope != nil {
			w.Scope, w.Rule, w.After = scope.name, rule, after
		}
		if l := u.listsOf(u.classes[w.of]); l.holds().endsAt(w.Slot.UnixMicro()) {
			w.Scope, w.Rule, w.After = l.scope(w.of), QuietRule, Entry{}
		}
		t.Bookings = append(t.Bookings, w.Booking)
	}
	sortBookings(t.Bookings)
	return t
}

// Rule names the limit of the scope that lets an entry at the instant be no earlier,
// and the entry that it counts from, of those sent and those who wait before; "" when
// that is not known.
func (t *Timeline) Rule(scope string, at time.Time) (rule string, after Entry) {
	if t.marks[scope] == nil {
		return "", Entry{}
	}
	_, rule, after = binding([]*view{t.marks[scope]}, at.UnixMicro())
	return rule, after
}

// Timeline implements Planner.
func (l *Redis) Timeline(ctx context.Context, r Request) (Timeline, error) {
	r.ID = ""
	if err := r.validate(); err != nil || len(r.Scopes) == 0 {
		return newTimeline(&r, time.Time{}, newModel()), err
	}
	p, err := l.line(ctx, r, TimelineEntries)
	if err != nil {
		return Timeline{}, err
	}
	return newTimeline(&r, p.Now, p.model), nil
}

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
		first := sort.Search(len(sent), func(i int) bool { return sent[i].At.After(end.Add(-w.Period)) })
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

func micros(at int64) time.Time { return time.UnixMicro(at) }
