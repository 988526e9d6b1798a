package slidingstats

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A Series reports the growth of each of the last Window minutes, whenever it is sampled.
func TestSeriesReportsGrowthByMinute(t *testing.T) {
	t.Parallel()
	var s Series
	if s.Growth(1) != nil {
		t.Error("something has grown before anything is known")
	}
	at := func(minute, second int) time.Time { return time.Unix(int64(60*(1000+minute)+second), 0) }
	s.Sample(at(0, 58), []int64{2})
	s.Sample(at(0, 59), []int64{5})
	s.Sample(at(1, 0), []int64{6, 1})  // with a new count
	s.Sample(at(0, 59), []int64{7, 1}) // the clock was set back
	s.Sample(at(3, 30), []int64{10, 1})
	told := func() (all [][]int64) {
		for minute, grown := range s.Minutes() {
			all = append(all, append([]int64{minute.Unix()/60 - 1000}, grown...))
		}
		return all
	}
	want := [][]int64{{0, 5}, {1, 2, 1}, {3, 3, 0}}
	if got := told(); !slices.EqualFunc(got, want, slices.Equal[[]int64]) {
		t.Errorf("%v", got)
	}
	for minutes, want := range map[int64][]int64{1: {3, 0}, 2: {3, 0}, 3: {5, 1}, 4: {10, 1}, 100: {10, 1}} {
		if got := s.Growth(minutes); !slices.Equal(got, want) {
			t.Errorf("in %d minutes %v", minutes, got)
		}
	}
	s.Sample(at(Window, 0), []int64{11, 1})
	if got := told(); len(got) != 3 || got[0][0] != 1 {
		t.Errorf("%v", got)
	}
	for minute := range 100 {
		s.Sample(at(minute+Window, 1), []int64{11, 1})
	}
	if got := told(); len(got) != Window {
		t.Errorf("%d minutes are kept", len(got))
	}
}

// A quantile differs from the exact value by at most an eighth.
func TestQuantileIsWithinAnEighth(t *testing.T) {
	t.Parallel()
	if got := Quantile(new(Histogram).Counts(), .5); got != 0 {
		t.Errorf("without durations the quantile is %s", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		var h Histogram
		us := rapid.SliceOfN(rapid.Int64Range(0, 130e6), 1, 50).Draw(t, "us")
		for _, n := range us {
			h.Add(time.Duration(n) * time.Microsecond)
		}
		slices.Sort(us)
		for _, share := range []float64{.5, .99, 1} {
			rank := min(len(us)-1, max(0, int(math.Ceil(share*float64(len(us))))-1))
			exact, got := time.Duration(us[rank])*time.Microsecond, Quantile(h.Counts(), share)
			if off := (got - exact).Abs(); off > max(16*time.Microsecond, exact/8) {
				t.Errorf("%v of %v: %s, want %s", share, us, got, exact)
			}
		}
	})
	var h Histogram
	h.Add(-time.Second)
	h.Add(time.Hour)
	if got := h.Counts(); got[0] != 1 || got[len(got)-1] != 1 {
		t.Error(got)
	}
}
