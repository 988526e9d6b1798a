package meter

import (
	"github.com/pushpace/pushpace/throttle"
)

// cellTerms are the parameters of one rate: any span consecutive cells hold at most the count.
//
// A period consists of k cells, and any period touches up to k+1. A sliding window that counts k+1
// cells never allows more than the count in a period, and a Take waits up to a cell too long. A
// published window counts k cells, a fixed window one: these allow twice the count in a period.
type cellTerms struct {
	count  int
	length int64
	span   int
	rate   throttle.Rate
}

// cells returns the spec's terms. Life extends the period.
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

// most returns the largest number of units taken within reach, the µs from the first unit to the
// last.
func (t cellTerms) most(reach int64) int {
	touched := (reach+t.length-1)/t.length + 1
	return t.count * int((touched+int64(t.span)-1)/int64(t.span))
}
