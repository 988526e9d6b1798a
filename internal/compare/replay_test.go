package compare

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
)

// Who is denied comes back when it is told, and so waits as long as this.
func TestWaits(t *testing.T) {
	t.Parallel()
	one := []throttle.Rate{{Count: 1, Period: 10 * time.Millisecond}}
	ms := func(at ...int64) *Arrivals {
		a := &Arrivals{keys: 1, key: make([]int32, len(at))}
		for _, ms := range at {
			a.at = append(a.at, ms*1000)
		}
		return a
	}
	for _, c := range []struct {
		name   string
		spec   spec
		at     *Arrivals
		want   []int64 // ms
		gaveUp int
	}{
		{"one after the other", spec{Algorithm: Rolling, Rates: one}, ms(0, 0, 0), []int64{0, 10, 20}, 0},
		{"who comes later is behind", spec{Algorithm: Rolling, Rates: one}, ms(0, 1, 9), []int64{0, 9, 11}, 0},
		{"at the border", spec{Algorithm: meter.FixedWindow, Rates: one}, ms(8, 9, 30), []int64{0, 0, 1}, 0},
		{"its turn", spec{Algorithm: meter.LeakyBucket, Rates: one, Burst: 3}, ms(0, 0, 0), []int64{0, 10, 20}, 0},
		// two come back at the same instants, and keep each other out
		{"in vain", spec{Algorithm: PublishedRolling, Rates: one}, ms(0, 5, 10, 15), []int64{0, 50, 50, 50}, 3},
	} {
		contestant := Contestant{"c", c.spec}
		l, err := contestant.start([]string{"0"})
		if err != nil {
			t.Fatal(err)
		}
		got, gaveUp := waits(l, c.at, contestant.charges())
		slices.Sort(got)
		for i := range got {
			got[i] /= 1000
		}
		if !slices.Equal(got, c.want) || gaveUp != c.gaveUp {
			t.Errorf("%s: %v and %d gave up, want %v and %d", c.name, got, gaveUp, c.want, c.gaveUp)
		}
	}
}

// One line for all of a key that wait is as if each came back by itself.
func TestALineIsAsIfEachCameBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := drawArrivals(t, 100)
		c := Contestant{"c", spec{Algorithm: rapid.SampledFrom(Algorithms).Draw(t, "algorithm"), Rates: drawRates(t, 1)}}
		if c.spec.Rates[0].Count*5 < a.Len() || c.charges() {
			return // some would give up
		}
		ids := []string{"0", "1", "2"}[:a.keys]
		var waited [2][]int64
		for i := range waited {
			l, err := c.start(ids)
			if err != nil {
				t.Fatal(err)
			}
			var gaveUp int
			if waited[i], gaveUp = waits(l, a, i == 1); gaveUp > 0 {
				return
			}
			slices.Sort(waited[i])
		}
		sum := func(all []int64) (s int64) {
			for _, w := range all {
				s += w
			}
			return s
		}
		if len(waited[0]) != a.Len() || len(waited[1]) != a.Len() || sum(waited[0]) != sum(waited[1]) {
			t.Errorf("%s: a line waits %v, each by itself %v", c.Limit(), waited[0], waited[1])
		}
	})
}

func TestMeanAndHigh(t *testing.T) {
	t.Parallel()
	var waited []int64
	for i := range int64(200) {
		waited = append(waited, 200-i)
	}
	if mean, high := meanAndHigh(waited); mean != 100500*time.Nanosecond || high != 198*time.Microsecond {
		t.Error(mean, high)
	}
	if mean, high := meanAndHigh(nil); mean != 0 || high != 0 {
		t.Error(mean, high)
	}
}

// What is told of arrivals of two keys, as JSON has it.
func TestSummary(t *testing.T) {
	t.Parallel()
	a := &Arrivals{at: []int64{0, 0, 1000, 10_000}, key: []int32{0, 0, 1, 0}, keys: 2}
	contestants, err := Parse([]string{"now={rates: [1/10ms]}", "quota={rate: 2/10ms, algorithm: fixed_window}"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Replay(a, contestants)
	if err != nil {
		t.Fatal(err)
	}
	got := c.Summary()
	for name, want := range map[string]Outcome{
		"now":   {3, 1, 1, 0, WaitMS{5, 10}, got.Contestants["now"].Bytes, 1.25},
		"quota": {4, 0, 2, 0, WaitMS{}, got.Contestants["quota"].Bytes, 1},
	} {
		if got.Arrivals != 4 || len(got.Contestants) != 2 || got.Contestants[name] != want {
			t.Errorf("%s: %+v, want %+v", name, got.Contestants[name], want)
		}
	}
}
