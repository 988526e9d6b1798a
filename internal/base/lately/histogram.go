package lately

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A Histogram counts durations, each in a part that is at most a quarter of it wide. Its
// zero value is ready to use, by any goroutine.
type Histogram [4 * octaves]atomic.Int64

// octaves are the first 128 µs, each doubling of them up to two minutes, and what is
// longer: each in four parts.
const octaves = 21

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) { h[part(d)].Add(1) }

func part(d time.Duration) int {
	us := uint64(max(0, d.Microseconds()))
	octave := bits.Len64(us >> 7)
	quarter := int(us >> (4 + max(1, octave)) & 3)
	return min(4*octave+quarter, 4*octaves-1)
}

// Counts are those of the parts.
func (h *Histogram) Counts() []int64 {
	counts := make([]int64, len(h))
	for i := range h {
		counts[i] = h[i].Load()
	}
	return counts
}

// Quantile returns about how long that share of the durations took at most, whose counts
// these are; 0 of none.
func Quantile(counts []int64, share float64) time.Duration {
	var all, seen int64
	for _, n := range counts {
		all += n
	}
	for i, n := range counts {
		if seen += n; n > 0 && float64(seen) >= share*float64(all) {
			return (edge(i) + edge(i+1)) / 2
		}
	}
	return 0
}

// edge is where a part begins.
func edge(i int) time.Duration {
	octave, quarter := i/4, i%4
	if octave == 0 {
		return time.Duration(quarter) * 32 * time.Microsecond
	}
	return time.Duration(4+quarter) << (4 + octave) * time.Microsecond
}
