package meter

import (
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// Cells are what is known of a key for one rate of a window: how many units were taken
// in each cell of Redis's time. cells.lua is the same arithmetic.
type cells struct {
	length int64 // of a cell, in µs
	newest int64 // the number of the newest cell
	counts []int // of the newest and those before it
}

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

// seen returns the rate's cells as they are at that instant, of those that are known.
// Where another length was counted by, or the clock was set back, each count goes to the
// last cell that it can be of, and that is to be kept even if nothing is taken.
func (t cellTerms) seen(known []cells, now int64) (c cells, changed bool) {
	c = cells{length: t.length, newest: now / t.length, counts: make([]int, t.span)}
	var from cells // of the same length, else of the greatest
	for _, k := range known {
		if from.length != t.length && (k.length == t.length || k.length > from.length) {
			from = k
		}
	}
	for i, n := range from.counts {
		last := min(now, (from.newest-int64(i)+1)*from.length-1)
		if age := c.newest - last/t.length; age < int64(t.span) {
			c.counts[age] += n
		}
	}
	return c, from.counts != nil && (from.length != t.length || from.newest > c.newest)
}

func (c cells) sum() int {
	sum := 0
	for _, n := range c.counts {
		sum += n
	}
	return sum
}

// gives is the instant at which the cells have given back so many units by passing.
func (c cells) gives(units int) int64 {
	age := len(c.counts) - 1
	for units -= c.counts[age]; units > 0; units -= c.counts[age] {
		age--
	}
	return (c.newest - int64(age) + int64(len(c.counts))) * c.length
}

// back takes units out again, the last ones first.
func (c cells) back(units int) {
	for age := range c.counts {
		n := min(units, c.counts[age])
		c.counts[age] -= n
		units -= n
	}
}

// takeCells takes units as asked for of all rates. It returns what their cells are then,
// and whether that is to be kept: what is denied leaves no trace.
func takeCells(terms []cellTerms, known []cells, now int64, a Ask) (all []cells, answer Answer, changed bool) {
	least := max(1, a.Least)
	units, free, binds := a.Most, now, throttle.Rate{}
	for _, t := range terms {
		c, stale := t.seen(known, now)
		all, changed = append(all, c), changed || stale
		room := t.count - a.Keep - c.sum()
		units = min(units, room)
		if room < least {
			if at := c.gives(least - room); at > free {
				free, binds = at, t.rate
			}
		}
	}
	switch {
	case a.Most < 0:
		for _, c := range all {
			c.back(-a.Most)
		}
		changed = true
	case free > now:
		answer = Answer{Left: time.Duration(free-now) * time.Microsecond, Rule: binds.String()}
	case units > 0:
		for _, c := range all {
			c.counts[0] += units
		}
		answer, changed = Answer{Units: units}, true
	}
	return all, answer, changed
}

// lapseCells is the instant from which on the cells say no more than none.
func lapseCells(all []cells) int64 {
	at := int64(0)
	for _, c := range all {
		for age, n := range c.counts {
			if n > 0 {
				at = max(at, (c.newest-int64(age)+int64(len(c.counts)))*c.length)
				break
			}
		}
	}
	return at
}
