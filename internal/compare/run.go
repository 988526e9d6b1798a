package compare

import (
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// A result is what became of the arrivals under a contestant's limit.
type result struct {
	name     string
	limit    string
	rate     throttle.Rate // the first one
	admitted int           // when it was asked once for each
	denied   int
	most     int // admitted for one key in any period of the first rate
	// violations are the admissions that came sooner than some rate allows.
	violations int
	// mean and high are how long they wait who come back when they are told: the mean,
	// and what 99 of 100 do not exceed. gaveUp have come back in vain for maxReturns times.
	mean, high time.Duration
	gaveUp     int
	bytes      int     // that Redis would hold at most at once
	commands   float64 // that Redis is asked for a decision; a script or MULTI is one
	picture    []int   // how many were admitted, by the parts of the picture
	broken     []bool  // in which of these was a violation
}

// A Comparison is what became of arrivals, in the order of the contestants.
type Comparison struct {
	arrivals    *Arrivals
	contestants []Contestant
	results     []result
	axis        axis
}

// Replay replays the arrivals through each contestant.
func Replay(a *Arrivals, contestants []Contestant) (*Comparison, error) {
	results, errs := make([]result, len(contestants)), make([]error, len(contestants))
	ids := make([]string, a.keys)
	for i := range ids {
		ids[i] = strconv.Itoa(i)
	}
	axis := axisOf(a, contestants)
	var running sync.WaitGroup
	turn := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range contestants {
		turn <- struct{}{}
		running.Go(func() {
			defer func() { <-turn }()
			results[i], errs[i] = contestants[i].replay(a, ids, axis)
		})
	}
	running.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return &Comparison{a, contestants, results, axis}, nil
}

func (c *Contestant) replay(a *Arrivals, ids []string, x axis) (r result, err error) {
	r = result{name: c.Name, limit: c.Limit(), rate: c.rates()[0], picture: make([]int, parts), broken: make([]bool, parts)}
	l, err := c.start(ids)
	if err != nil {
		return r, err
	}
	admissions, waited := ask(l, a)
	v := judge(admissions, a.keys, c.rates(), func(at int64) {
		if part, shown := x.part(at); shown {
			r.broken[part] = true
		}
	})
	for _, admitted := range admissions {
		if part, shown := x.part(admitted.at); shown {
			r.picture[part]++
		}
	}
	r.admitted, r.denied, r.most, r.violations = len(admissions), a.Len()-len(admissions), v.most, v.violations
	r.bytes, r.commands = c.cost(a, admissions)
	if r.denied > 0 {
		if l, err = c.start(ids); err != nil {
			return r, err
		}
		waited, r.gaveUp = waits(l, a, c.charges())
	}
	r.mean, r.high = meanAndHigh(waited)
	return r, nil
}
