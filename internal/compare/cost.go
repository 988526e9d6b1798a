package compare

import (
	"time"

	"github.com/pushpace/pushpace/throttle/meter"
)

// What Redis's memory holds, in bytes: of a meter a key with some numbers, of a timeline
// a key and its admissions, which take more where there are many. TestBytes holds this
// against a Redis.
const (
	keyBytes       = 110
	cellBytes      = 4
	admissionBytes = 37
	manyBytes      = 120
	many           = 128
)

// horizon is how long a timeline keeps admissions, by default.
const horizon = 24 * time.Hour

// cost returns how many bytes Redis would hold at most at once, and of how many
// commands a decision is.
func (c *Contestant) cost(a *Arrivals, admissions []admission) (bytes int, commands float64) {
	perKey, perEntry, commands := keyBytes, 0, 1.
	keep, most := time.Duration(0), 0
	for _, r := range c.rates() {
		keep, most = max(keep, r.Period), max(most, r.Count)
	}
	entries := admissions
	switch c.spec.Algorithm {
	case Rolling:
		keep = max(keep, horizon)
		commands = 2 - float64(len(admissions))/float64(a.Len()) // a denied one undoes its claim
	case PublishedRolling: // which keeps all attempts
		entries = make([]admission, a.Len())
		for i, at := range a.at {
			entries[i] = admission{at, a.key[i]}
		}
	case meter.SlidingWindow, meter.PublishedWindow:
		perKey += cellBytes * c.spec.cells()
	}
	if c.spec.Algorithm == Rolling || c.spec.Algorithm == PublishedRolling {
		if perEntry = admissionBytes; most > many {
			perEntry = manyBytes
		}
	}
	return held(entries, a.keys, keep.Microseconds(), perKey, perEntry), commands
}

// held returns the most that is held at once, where each entry is kept for so long,
// and each key as long as it has one.
func held(entries []admission, keys int, keep int64, perKey, perEntry int) int {
	own, live, first, most := make([]int32, keys), 0, 0, 0
	for i, e := range entries {
		for ; entries[first].at <= e.at-keep; first++ {
			k := entries[first].key
			if own[k]--; own[k] == 0 {
				live--
			}
		}
		if own[e.key]++; own[e.key] == 1 {
			live++
		}
		most = max(most, live*perKey+(i-first+1)*perEntry)
	}
	return most
}
