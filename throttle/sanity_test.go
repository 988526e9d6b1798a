package throttle

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func rates(t testing.TB, list ...string) []Rate {
	t.Helper()
	var all []Rate
	for _, s := range list {
		r, err := ParseRate(s)
		must(t, err)
		all = append(all, r)
	}
	return all
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		gap   time.Duration
		rates []string
		want  []string // prefix of each
	}{
		{time.Second, []string{"10/1m", "100/24h"}, nil},
		{0, []string{"5/1h", "10/24h"}, nil},
		{0, []string{"10/1h", "5/24h"}, []string{"rate 10/1h never decides: rate 5/24h alone allows at most 5 in 1h"}},
		{0, []string{"10/1m", "1000/1h"}, []string{"rate 1000/1h never decides: rate 10/1m alone allows at most 600 in 1h"}},
		{0, []string{"10/1m", "599/1h"}, nil},
		{0, []string{"10/7m", "90/1h"}, []string{"rate 90/1h never decides"}},
		{0, []string{"10/7m", "89/1h"}, nil},
		{time.Second, []string{"60/1m"}, []string{"rate 60/1m never decides: min_gap 1s alone allows at most 60 in 1m"}},
		{time.Second, []string{"59/1m"}, nil},
		{time.Second, []string{"1/24h"}, []string{"min_gap 1s never decides: rate 1/24h alone"}},
		{time.Minute, []string{"1/1m"}, []string{"rate 1/1m never decides: min_gap 1m"}},
	} {
		got := Warnings(Policy{MinGap: c.gap, Rates: rates(t, c.rates...)})
		if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("%s %v: %q, want %q", c.gap, c.rates, got, c.want)
		}
	}
}

// If a rate implies a second rate, no sequence that the first allows exceeds the second.
func TestImpliedRateNeverDecides(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		rate := func(label string) Rate {
			return Rate{rapid.IntRange(1, 6).Draw(rt, label+" count"), time.Duration(rapid.IntRange(1, 12).Draw(rt, label+" period")) * time.Second}
		}
		by, r := rate("by"), rate("r")
		// the densest admissions under the rate by: all of a period are at its beginning
		var at []time.Duration
		for period := range 20 {
			for range by.Count {
				at = append(at, time.Duration(period)*by.Period)
			}
		}
		kept := true
		for i := r.Count; i < len(at); i++ {
			kept = kept && at[i]-at[i-r.Count] >= r.Period
		}
		if len(at) > r.Count && by.implies(r) != kept {
			rt.Errorf("%s implies %s: %t, kept: %t", by, r, by.implies(r), kept)
		}
	})
}

func TestRaises(t *testing.T) {
	t.Parallel()
	exempt := Policy{Exempt: true}
	p := func(gap time.Duration, list ...string) Policy { return Policy{MinGap: gap, Rates: rates(t, list...)} }
	q := func(windows ...string) Policy { return Policy{Quiet: hoursOf(t, windows...)} }
	spread := q("22:00-08:00")
	spread.Night.Spread = time.Minute
	for _, c := range []struct {
		from, to Policy
		want     bool
	}{
		{p(time.Second), p(time.Second), false},
		{p(2 * time.Second), p(time.Second), true},
		{p(time.Second), p(0), true},
		{p(0), p(time.Second), false},
		{p(0, "10/1m"), p(0, "5/1m"), false},
		{p(0, "10/1m"), p(0, "10/2m"), false},
		{p(0, "10/1m"), p(0, "20/2m"), true}, // 20 in one minute
		{p(0, "10/1m"), p(6 * time.Second), false},
		{p(0, "10/1m"), p(5 * time.Second), true},
		{p(0, "10/1m", "100/24h"), p(0, "10/1m"), true},
		{p(time.Second), exempt, true},
		{exempt, exempt, false},
		{exempt, p(0), false}, // an exempt category has no slots
		{q("22:00-08:00"), q("22:00-08:00", "12:00-13:00"), false},
		{q("22:00-08:00", "12:00-13:00"), q("22:00-08:00"), true},
		{q("22:00-08:00"), q("22:00-07:00"), true},
		{q("22:00-08:00"), spread, true},
		{q("22:00-08:00"), q(), true},
		{q(), q("22:00-08:00"), false},
		{p(0), q("22:00-08:00"), true}, // a category with quiet hours in place of the general ones
	} {
		if got := Raises(c.from, c.to); got != c.want {
			t.Errorf("from %+v to %+v: %t", c.from, c.to, got)
		}
	}
}
