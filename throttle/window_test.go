package throttle_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

func TestWindowsCountAdmissions(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)
	policy := throttle.Policy{MinGap: time.Second, Rates: []throttle.Rate{{Count: 3, Period: time.Minute}, {Count: 2000, Period: time.Hour}}}
	thousand := make([]time.Duration, throttle.MaxEntries)
	for i := range thousand {
		thousand[i] = time.Duration(i-len(thousand)) * 2 * time.Second
	}
	at := now.Add
	for _, c := range []struct {
		name   string
		policy throttle.Policy
		sent   []time.Duration
		want   []throttle.Window // Rule, Count and Period are the policy's
	}{
		{"nothing", policy, nil, []throttle.Window{{Free: now}, {Free: now}, {Free: now}}},
		{"just now", policy, []time.Duration{0}, []throttle.Window{{Used: 1, Free: at(time.Second)}, {Used: 1, Free: now}, {Used: 1, Free: now}}},
		{"exactly one gap ago", policy, []time.Duration{-time.Second}, []throttle.Window{{Free: now}, {Used: 1, Free: now}, {Used: 1, Free: now}}},
		{"ahead", policy, []time.Duration{time.Second}, []throttle.Window{{Used: 1, Free: at(2 * time.Second)}, {Used: 1, Free: now}, {Used: 1, Free: now}}},
		{"one just now, one ahead", policy, []time.Duration{-500 * time.Millisecond, 600 * time.Millisecond},
			[]throttle.Window{{Used: 1, Free: at(1600 * time.Millisecond)}, {Used: 2, Free: now}, {Used: 2, Free: now}}},
		{"free before the one ahead", policy, []time.Duration{-59500 * time.Millisecond, -20 * time.Second, 600 * time.Millisecond},
			[]throttle.Window{{Used: 1, Free: at(1600 * time.Millisecond)}, {Used: 2, Free: at(500 * time.Millisecond)}, {Used: 3, Free: now}}},
		{"full", policy, []time.Duration{-time.Minute, -50 * time.Second, -20 * time.Second, -10 * time.Second},
			[]throttle.Window{{Free: now}, {Used: 3, Free: at(10 * time.Second)}, {Used: 4, Free: now}}},
		{"over, after it was lowered", policy, []time.Duration{-50 * time.Second, -20 * time.Second, -10 * time.Second, -9 * time.Second},
			[]throttle.Window{{Free: now}, {Used: 4, Free: at(40 * time.Second)}, {Used: 4, Free: now}}},
		{"further back than is shown", policy, thousand, []throttle.Window{{Free: now}, {Used: 29, Free: at(54 * time.Second)}, {Used: 1000, AtLeast: true}}},
		{"no limit", throttle.Policy{}, []time.Duration{0}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tl := throttle.Timeline{Now: now, Admissions: map[string][]throttle.Entry{}}
			for _, d := range c.sent {
				tl.Admissions["all"] = append(tl.Admissions["all"], throttle.Entry{At: at(d)})
			}
			want := slices.Clone(c.want)
			for i := range want {
				rate := throttle.Rate{Count: 1, Period: c.policy.MinGap}
				want[i].Rule = "gap"
				if n := i - len(want) + len(c.policy.Rates); n >= 0 {
					rate = c.policy.Rates[n]
					want[i].Rule = rate.String()
				}
				want[i].Count, want[i].Period = rate.Count, rate.Period
			}
			if got := tl.Windows(throttle.Scope{Name: "all", Policy: c.policy}); !slices.Equal(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// A timeline names the same limit as the limiter's deferral did.
func TestTimelineRuleEqualsDecisionRule(t *testing.T) {
	t.Parallel()
	clock := time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)
	limiter, err := throttle.NewMemory(throttle.Options{Now: func() time.Time { return clock }})
	must(t, err)
	t.Cleanup(func() { _ = limiter.Close() })
	scopes := []throttle.Scope{
		{Name: throttle.General, Policy: throttle.Policy{MinGap: time.Second, Rates: []throttle.Rate{{Count: 4, Period: 10 * time.Second}}}},
		{Name: "news", Policy: throttle.Policy{Rates: []throttle.Rate{{Count: 2, Period: time.Hour}}}},
	}
	said := map[string]string{}
	for i, scope := range []int{1, 2, 1, 2, 1, 1, 2, 2, 1, 1} { // number of scopes of the request
		id := string(rune('a' + i))
		d, err := limiter.Acquire(t.Context(), throttle.Request{User: "ada", ID: id, Scopes: scopes[:scope], Horizon: 24 * time.Hour})
		must(t, err)
		if d.Status == throttle.Deferred {
			said[id] = d.Rule
		}
		clock = clock.Add(300 * time.Millisecond)
	}
	known, err := limiter.Timeline(t.Context(), throttle.Request{User: "ada", Scopes: scopes})
	must(t, err)
	got := map[string]string{}
	for _, b := range known.Bookings {
		got[b.ID] = b.Rule
	}
	if !maps.Equal(got, said) || len(said) < 6 {
		t.Errorf("got  %v\nwant %v", got, said)
	}
	limits := map[string]throttle.Rate{"all gap": {Count: 1, Period: time.Second}, "all 4/10s": {Count: 4, Period: 10 * time.Second}, "news 2/1h": {Count: 2, Period: time.Hour}}
	for _, b := range known.Bookings {
		var before []throttle.Entry
		for _, a := range known.Admissions[b.Scope] {
			before = append(before, throttle.Entry(a))
		}
		for _, other := range known.Bookings {
			if other.Slot.Before(b.Slot) && (b.Scope == throttle.General || other.Category == b.Scope) {
				before = append(before, throttle.Entry{ID: other.ID, At: other.Slot})
			}
		}
		limit := limits[b.Scope+" "+b.Rule]
		if want := before[len(before)-limit.Count]; b.After != want || b.Slot.Before(want.At.Add(limit.Period)) {
			t.Errorf("%s at %v is after %+v, want %+v", b.ID, b.Slot, b.After, want)
		}
	}
}
