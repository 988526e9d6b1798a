package throttle

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// A waiting is a booking, and whether it is of the request's category.
type waiting struct {
	Booking
	own bool
}

// newTimeline is what the request's scopes have: the nearest of those that wait in
// any of them, with the scope and the rule that let them be no earlier.
func newTimeline(r *Request, now time.Time, admissions map[string][]Admission, all []waiting) Timeline {
	t := Timeline{Now: now, Admissions: map[string][]Admission{}, marks: map[string]*view{}}
	general, own := r.policies()
	all = slices.DeleteFunc(all, func(w waiting) bool { return general == nil && (own == nil || !w.own) })
	slices.SortFunc(all, func(a, b waiting) int { return cmp.Or(a.Slot.Compare(b.Slot), cmp.Compare(a.ID, b.ID)) })
	all = all[:min(len(all), TimelineEntries)]
	for _, s := range r.Scopes {
		v := &view{name: s.Name, policy: s.Policy, rules: s.Policy.appendRules(nil)}
		for _, a := range admissions[s.Name] {
			v.marks = append(v.marks, mark{at: a.At.UnixMicro(), id: a.ID})
		}
		for _, w := range all {
			if w.own || s.Name == General {
				v.marks = append(v.marks, mark{at: w.Slot.UnixMicro(), waits: true, id: w.ID})
			}
		}
		slices.SortFunc(v.marks, mark.compare)
		t.Admissions[s.Name], t.marks[s.Name] = append([]Admission{}, admissions[s.Name]...), v
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

// waitingSource returns those that wait, the nearest of each category: its name,
// then ID and slot of each.
//
// KEYS  limits
// ARGV  how many of each; the one category that is asked for, or ""
const waitingSource = `
local base, reply = string.sub(KEYS[1], 1, -7), {}
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  local name = string.sub(field, 2)
  if string.sub(field, 1, 1) == 'c' and (ARGV[2] == '' or ARGV[2] == name) then
    local slots = redis.call('ZRANGE', base .. 'booked:' .. name, 0, ARGV[1] - 1, 'WITHSCORES')
    local queue = redis.call('ZRANGE', base .. 'queue:' .. name, 0, ARGV[1] - 1)
    local one = {name}
    for k, id in ipairs(queue) do
      if slots[2 * k] then
        one[#one + 1] = id
        one[#one + 1] = string.format('%.0f', tonumber(slots[2 * k]))
      end
    end
    reply[#reply + 1] = one
  end
end
return reply`

var waitingScript = redis.NewScript(waitingSource)

// Timeline implements Limiter.
func (l *Redis) Timeline(ctx context.Context, r Request) (Timeline, error) {
	if err := r.validate(); err != nil || len(r.Scopes) == 0 {
		return newTimeline(&r, time.Time{}, nil, nil), err
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	k := &l.user(&r).keys
	pipe := l.client.Pipeline()
	clock := pipe.Time(ctx)
	sent := map[string]*redis.ZSliceCmd{}
	for _, s := range r.Scopes {
		sent[s.Name] = pipe.ZRevRangeWithScores(ctx, k.timeline(s.Name), 0, TimelineEntries-1)
	}
	category := k.category
	if general, _ := r.policies(); general != nil {
		category = ""
	}
	l.trips.Add(2)
	if _, err := pipe.Exec(ctx); err != nil {
		return Timeline{}, StoreError("timeline", err)
	}
	reply, err := waitingScript.Run(ctx, l.client, []string{k.limits}, TimelineEntries, category).Slice()
	if err != nil {
		return Timeline{}, StoreError("timeline", err)
	}
	admissions := map[string][]Admission{}
	for scope, cmd := range sent {
		for _, e := range slices.Backward(cmd.Val()) {
			admissions[scope] = append(admissions[scope], Admission{ID: memberID(e.Member.(string)), At: time.UnixMicro(int64(e.Score))})
		}
	}
	var all []waiting
	for _, class := range reply {
		fields, _ := class.([]any)
		if len(fields) == 0 {
			return Timeline{}, errReply
		}
		for i := 1; i+1 < len(fields); i += 2 {
			id, _ := fields[i].(string)
			at, err := integer(fields[i+1])
			if err != nil {
				return Timeline{}, err
			}
			all = append(all, waiting{Booking{ID: id, Slot: micros(at)}, fields[0] == k.category})
		}
	}
	return newTimeline(&r, clock.Val(), admissions, all), nil
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
