package slidingstats

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A Histogram counts durations in buckets. From 128 µs on, a bucket is at most as wide as a quarter
// of its durations. The zero value is ready to use. Safe for concurrent use.
type Histogram [4 * octaves]atomic.Int64

// octaves is the number of ranges, of four buckets each: the first 128 µs, each doubling of that up
// to two minutes, and all longer durations.
const octaves = 21

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) { h[bucketOf(d)].Add(1) }

func bucketOf(d time.Duration) int {
	us := uint64(max(0, d.Microseconds()))
	octave := bits.Len64(us >> 7)
	quarter := int(us >> (4 + max(1, octave)) & 3)
	return min(4*octave+quarter, 4*octaves-1)
}

// Counts returns the count of each bucket.
func (h *Histogram) Counts() []int64 {
	counts := make([]int64, len(h))
	for i := range h {
		counts[i] = h[i].Load()
	}
	return counts
}

// Quantile returns approximately the duration that this share of the counted durations does not
// exceed; 0 if the counts are zero.
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

// edge returns the lower bound of a bucket.
func edge(i int) time.Duration {
	octave, quarter := i/4, i%4
	if octave == 0 {
		return time.Duration(quarter) * 32 * time.Microsecond
	}
	return time.Duration(4+quarter) << (4 + octave) * time.Microsecond
}
