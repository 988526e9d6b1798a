package meter

import (
	"github.com/pushpace/pushpace/throttle"
)

// cellTerms are what one rate says to its cells: that so many of them, one after the
// other, never hold more than the count.
//
// All that lies in a period touches its k cells and one more. A sliding window that
// counts k+1 lets the count pass in any period, and has its users wait for up to a cell
// longer; one that counts k, as published, lets twice the count pass. So does a fixed
// window, which counts one.
type cellTerms struct {
	count  int
	length int64
	span   int
	rate   throttle.Rate
}

// cells returns the spec's terms. Units that live on after they are taken make the
// period longer.
func (s Spec) cells() []cellTerms {
	terms := make([]cellTerms, len(s.Rates))
	for i, r := range s.Rates {
		k, span := 1, 1
		if s.Algorithm != FixedWindow {
			if k = s.Cells; k == 0 {
				k = defaultCells
			}
			if span = k; s.Algorithm == SlidingWindow {
				span++
			}
		}
		period := (r.Period + s.Life).Microseconds()
		terms[i] = cellTerms{count: r.Count, length: (period + int64(k) - 1) / int64(k), span: span, rate: r}
	}
	return terms
}

// most is how many units may be taken at instants of which the last is at most so many
// µs after the first.
func (t cellTerms) most(reach int64) int {
	touched := (reach+t.length-1)/t.length + 1
	return t.count * int((touched+int64(t.span)-1)/int64(t.span))
}
