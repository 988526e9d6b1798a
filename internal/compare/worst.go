package compare

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// A Worst is the history that has a contestant let the most through in a period: of
// those that begin after a long quiet, at some phase of the clock, with as many as
// there is room for, and go on with one each time it is told that there is room, or
// with all that there is room for at the period's end: what loses a part of a unit
// each time it is asked lets more through then.
type Worst struct {
	Most    int // used in the period
	Rate    throttle.Rate
	History []Group
	// Ramp is how long it takes until a bucket is warm, as it is in this history.
	Ramp time.Duration
	// Held is how long the units of a promise that are taken first are kept, before
	// they lapse.
	Held time.Duration
}

// A Group is how many units are taken at one instant, from a border of the clock's
// periods on.
type Group struct {
	After time.Duration
	Units int
}

// worst returns the worst history for the rate of which most is let through.
func (c *Contestant) worst() (worst Worst, err error) {
	warm := *c
	warm.spec.Ramp = 0
	for _, rate := range c.rates() {
		period := rate.Period.Microseconds()
		for _, phase := range slices.Compact([]int64{0, period/int64(c.spec.cells()) - 1, period - 1}) {
			for _, patient := range []bool{false, true} {
				l, err := warm.start([]string{"0"})
				if err != nil {
					return worst, err
				}
				w := attack(l, rate, phase, c.held(), patient)
				if w.Most*max(1, worst.Rate.Count) > worst.Most*rate.Count {
					worst = w
				}
			}
		}
	}
	worst.Ramp = c.spec.Ramp
	return worst, nil
}

// held is how long a unit that was taken may be kept until it is used.
func (c *Contestant) held() time.Duration {
	if !c.spec.Promise {
		return 0
	}
	return c.spec.meter().Life
}

// attack plays the history that begins at the phase. A patient one goes on at the
// period's end.
func attack(l limiter, rate throttle.Rate, phase int64, held time.Duration, patient bool) Worst {
	w := Worst{Rate: rate, Held: held}
	period := rate.Period.Microseconds()
	origin := 1000 * period // quiet until here
	first := origin + phase
	use := first + max(0, held.Microseconds()-1) // what is taken before is used here
	var used []admission
	for now := first; now < use+period; {
		left, taken := l.take(0, now)
		if !taken {
			now += max(1, left)
			if patient {
				now = max(now, use+period-1)
			}
			continue
		}
		used = append(used, admission{at: max(use, now+left)})
		after := time.Duration(now-origin) * time.Microsecond
		if n := len(w.History); n == 0 || w.History[n-1].After != after {
			w.History = append(w.History, Group{After: after})
		}
		w.History[len(w.History)-1].Units++
	}
	w.Most = judge(used, 1, []throttle.Rate{rate}, func(int64) {}).most
	return w
}

// String says the history in words.
func (w Worst) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d in %s:", w.Most, throttle.FormatPeriod(w.Rate.Period))
	for i := 0; i < len(w.History); {
		if i > 0 {
			b.WriteString(",")
		}
		if i == 2 && len(w.History) > 3 {
			// what follows is small, and many
			units, last := 0, w.History[len(w.History)-1]
			for _, g := range w.History[i:] {
				units += g.Units
			}
			fmt.Fprintf(&b, " and %d more until %s", units, last.After)
			break
		}
		fmt.Fprintf(&b, " %d at %s", w.History[i].Units, w.History[i].After)
		i++
	}
	if w.Ramp > 0 {
		b.WriteString("; once it is warm")
	}
	if w.Held > 0 {
		fmt.Fprintf(&b, "; what is taken first is kept for %s", w.Held)
	}
	return b.String()
}
