package compare

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pushpace/pushpace/internal/violations"
	"github.com/pushpace/pushpace/throttle"
)

// drawArrivals draws some arrivals of some keys, within so many ms.
func drawArrivals(t *rapid.T, within int) *Arrivals {
	a := &Arrivals{keys: rapid.IntRange(1, 3).Draw(t, "keys")}
	for range rapid.IntRange(1, 60).Draw(t, "arrivals") {
		a.at = append(a.at, int64(rapid.IntRange(0, within).Draw(t, "ms"))*1000)
		a.key = append(a.key, int32(rapid.IntRange(0, a.keys-1).Draw(t, "key")))
	}
	a.sort()
	return a
}

// drawRates draws rates of different periods.
func drawRates(t *rapid.T, most int) []throttle.Rate {
	return rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) throttle.Rate {
		return throttle.Rate{Count: rapid.IntRange(1, 6).Draw(t, "count"), Period: time.Duration(rapid.IntRange(1, 40).Draw(t, "period")) * time.Millisecond}
	}), 1, most, func(r throttle.Rate) time.Duration { return r.Period }).Draw(t, "rates")
}

// The judge finds the violations that internal/violations finds, and no window holds
// more than it says.
func TestJudge(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, rates := drawArrivals(t, 100), drawRates(t, 3)
		admissions, pushes := make([]admission, a.Len()), make([]violations.Push, a.Len())
		most := 0
		for i, at := range a.at {
			admissions[i] = admission{at, a.key[i]}
			pushes[i] = violations.Push{User: string(rune('a' + a.key[i])), At: time.UnixMicro(at)}
			within := 0
			for j := range a.at {
				if a.key[j] == a.key[i] && a.at[j] >= at && a.at[j] < at+rates[0].Period.Microseconds() {
					within++
				}
			}
			most = max(most, within)
		}
		var told []int64
		got := judge(admissions, a.keys, rates, func(at int64) { told = append(told, at) })
		if got.most != most || got.violations != len(told) {
			t.Errorf("%+v with %d told, want %d at most", got, len(told), most)
		}
		// a push that breaks several rates is one violation for each of them there, and
		// pushes of one instant are interchangeable
		broken := map[violations.Violation]bool{}
		for _, r := range rates {
			of := violations.Find(pushes, throttle.Policy{Rates: []throttle.Rate{r}}, nil, 0)
			alone := judge(admissions, a.keys, []throttle.Rate{r}, func(int64) {})
			if len(of) != alone.violations {
				t.Errorf("%s: %d violations, want %d", r, alone.violations, len(of))
			}
			for _, v := range of {
				broken[violations.Violation{User: v.User, At: v.At}] = true
			}
		}
		for _, at := range told {
			found := false
			for v := range broken {
				found = found || v.At.UnixMicro() == at
			}
			if !found {
				t.Errorf("%d is told, and breaks nothing", at)
			}
		}
		if len(told) < len(broken) {
			t.Errorf("%d are told of %d", len(told), len(broken))
		}
	})
}
