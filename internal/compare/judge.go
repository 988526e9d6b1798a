package compare

import (
	"slices"

	"github.com/pushpace/pushpace/throttle"
)

// An admission is when something of a key's was let through.
type admission struct {
	at  int64
	key int32
}

// A verdict is how a contestant's admissions keep the limit that it stands for,
// counted without the arithmetic of any contestant.
type verdict struct {
	most       int // of one key in any period of the first rate
	violations int // admissions that came too soon by some rate
}

// judge judges the admissions of so many keys, and tells each that came too soon.
func judge(admissions []admission, keys int, rates []throttle.Rate, tooSoon func(at int64)) verdict {
	// each key's instants, side by side
	start := make([]int32, keys+1)
	for _, a := range admissions {
		start[a.key+1]++
	}
	for k := range keys {
		start[k+1] += start[k]
	}
	next := slices.Clone(start)
	at := make([]int64, len(admissions))
	for _, a := range admissions {
		at[next[a.key]] = a.at
		next[a.key]++
	}
	var v verdict
	for k := range keys {
		own := at[start[k]:start[k+1]]
		slices.Sort(own)
		v.most = max(v.most, mostWithin(own, rates[0].Period.Microseconds()))
		for i := range own {
			if slices.ContainsFunc(rates, func(r throttle.Rate) bool {
				return i >= r.Count && own[i]-own[i-r.Count] < r.Period.Microseconds()
			}) {
				v.violations++
				tooSoon(own[i])
			}
		}
	}
	return v
}

// mostWithin returns how many of the instants lie within any period, its end left
// out.
func mostWithin(at []int64, period int64) int {
	most, first := 0, 0
	for i := range at {
		for at[i]-at[first] >= period {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}
