package throttle

import (
	"context"
	"slices"
	"sort"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/base/zone"
)

// A view is a scope's limits and the entries that count towards them.
type view struct {
	name   string
	policy Policy
	marks  []mark // in order
}

// A mark is an admission or a slot of a scope.
type mark struct {
	Entry
	waits bool
}

// compare orders marks by time, and slots after admissions.
func (m mark) compare(o mark) int {
	if c := m.At.Compare(o.At); c != 0 || m.waits == o.waits {
		return c
	}
	if m.waits {
		return 1
	}
	return -1
}

// binding returns the view and the rule that set an entry's time at, and the entry that the rule
// counts from; nil and "" if no rule did.
func binding(views []*view, at time.Time) (scope *view, rule string, after Entry) {
	var latest time.Time
	for _, s := range views {
		before := sort.Search(len(s.marks), func(i int) bool { return !s.marks[i].At.Before(at) })
		for i, r := range s.policy.appendRules(nil) {
			if r.period == 0 || r.n > before {
				continue
			}
			m := s.marks[before-r.n]
			if free := m.At.Add(time.Duration(r.period) * time.Microsecond); !free.Before(latest) {
				latest, scope, rule, after = free, s, s.policy.ruleName(i), m.Entry
			}
		}
	}
	return scope, rule, after
}

// Timeline implements Planner. Its bookings are the scopes' earliest ones, each with the scope and
// the rule that set its slot.
func (l *Redis) Timeline(ctx context.Context, r Request) (Timeline, error) {
	t := Timeline{Admissions: map[string][]Entry{}, marks: map[string]*view{}}
	r.ID = ""
	if err := r.validate(); err != nil || len(r.Scopes) == 0 {
		return t, err
	}
	k := l.user(&r).keys
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	l.trips.Add(1)
	pipe := l.client.TxPipeline()
	clock := pipe.Time(ctx)
	slots := pipe.ZRangeWithScores(ctx, k.slots, 0, 2*MaxEntries)
	sent := make([]*redis.ZSliceCmd, len(r.Scopes))
	for i, s := range r.Scopes {
		sent[i] = pipe.ZRangeWithScores(ctx, k.timeline(s.Name), -MaxEntries, -1)
	}
	if _, err := pipeline.Exec(ctx, pipe); err != nil {
		return t, WrapStoreError("timeline", err)
	}
	t.Now = clock.Val()
	for i, s := range r.Scopes {
		list, v := []Entry{}, &view{name: s.Name, policy: s.Policy}
		for _, z := range sent[i].Val() {
			id, _ := z.Member.(string)
			e := Entry{memberID(id), micros(int64(z.Score))}
			list, v.marks = append(list, e), append(v.marks, mark{Entry: e})
		}
		t.Admissions[s.Name], t.marks[s.Name] = list, v
	}
	t.wait(&r, slots.Val())
	if p, _ := r.quietPolicy(); p != nil {
		t.Quiet, t.Hours, t.Zone = r.ahead(t.Now), p.Quiet, r.zone().String()
	}
	return t, nil
}

// wait adds a booking for each slot.
func (t *Timeline) wait(r *Request, slots []redis.Z) {
	general, own := r.policies()
	var lines []Line
	for _, z := range slots {
		member, _ := z.Member.(string)
		line, id := lineOf(member)
		mine := line.Category == r.category()
		if !mine && general == nil || len(t.Bookings) == MaxEntries {
			continue
		}
		b := Booking{ID: id, Slot: micros(int64(z.Score))}
		if mine {
			b.Category = r.category()
		}
		t.Bookings, lines = append(t.Bookings, b), append(lines, line)
		for _, s := range r.Scopes {
			if v := t.marks[s.Name]; mine || s.Name == General {
				v.marks = append(v.marks, mark{Entry{id, b.Slot}, true})
			}
		}
	}
	for _, v := range t.marks {
		slices.SortStableFunc(v.marks, mark.compare)
	}
	nights := map[string]list{}
	for i := range t.Bookings {
		b := &t.Bookings[i]
		var under []*view
		if lines[i].Category == r.category() && own != nil {
			under = append(under, t.marks[r.category()])
		}
		if general != nil {
			under = append(under, t.marks[General])
		}
		b.Scope = under[len(under)-1].name
		if scope, rule, after := binding(under, b.Slot); scope != nil {
			b.Scope, b.Rule, b.After = scope.name, rule, after
		}
		night, known := nights[lines[i].Zone]
		if !known {
			by := *r
			if in, err := zone.Load(lines[i].Zone); err == nil && lines[i].Zone != "" {
				by.Zone = in
			}
			night = by.closed(t.Now.UnixMicro())
			nights[lines[i].Zone] = night
		}
		if night.endsAt(b.Slot.UnixMicro()) {
			_, b.Scope = r.quietPolicy()
			b.Rule, b.After = QuietRule, Entry{}
		}
	}
	sortBookings(t.Bookings)
}

// A Window is the state of one limit of a scope: at most Count admissions in any window of length
// Period. Used counts the window that ends now, or at the newest admission if that is in the
// future.
type Window struct {
	Rule   string // "gap", or a rate in its text form
	Count  int    // 1 for the gap
	Period time.Duration
	Used   int
	// AtLeast means that Used may be larger: the timeline has only its newest MaxEntries
	// admissions.
	AtLeast bool
	// Free is when this limit alone allows the next notification: the timeline's Now if that is
	// already possible, zero if the timeline has too few entries to know.
	Free time.Time
}

// Windows returns the scope's limits in the order of its policy, first the gap if there is one.
// Slots do not count.
func (t *Timeline) Windows(s Scope) []Window {
	sent := t.Admissions[s.Name]
	cut := len(sent) >= MaxEntries
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
