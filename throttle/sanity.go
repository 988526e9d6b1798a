package throttle

import (
	"fmt"
	"time"
)

const (
	// MaxPerSecond is the largest mean that a rate may allow one user in one
	// second, and 1/MaxPerSecond the shortest gap. Nobody receives as much: a rate
	// beyond it is a slip of the pen.
	MaxPerSecond = 1000
	// manyAdmissions is the count from which on a user's timeline takes a
	// noticeable part of Redis's memory, about 70 bytes an admission.
	manyAdmissions = 10_000
)

// tooMany reports whether count in the period is more than MaxPerSecond.
func tooMany(count int, period time.Duration) bool {
	return float64(count) > MaxPerSecond*period.Seconds()
}

// most is how many admissions r lets into any window of the period.
func (r Rate) most(period time.Duration) int {
	return int((period+r.Period-1)/r.Period) * r.Count
}

// implies reports whether whoever keeps r keeps the other one too.
func (r Rate) implies(other Rate) bool { return r.most(other.Period) <= other.Count }

// asRates answers the policy's limits as rates, the gap as the first of them
// when there is one.
func (p Policy) asRates() []Rate {
	var all []Rate
	if p.MinGap > 0 {
		all = append(all, Rate{1, p.MinGap})
	}
	return append(all, p.Rates...)
}

// Raises reports whether to may allow what from forbids, so that who waits may
// come forward when it takes the place of from.
func Raises(from, to Policy) bool {
	if from.Exempt || to.Exempt {
		return to.Exempt && !from.Exempt
	}
	limits := to.asRates()
	for _, r := range from.asRates() {
		if !impliedBy(r, limits) {
			return true
		}
	}
	return false
}

func impliedBy(r Rate, by []Rate) bool {
	for _, b := range by {
		if b.implies(r) {
			return true
		}
	}
	return false
}

// invalid is what no operator means by limits that are well formed: "", or why.
func (p Policy) invalid() string {
	if p.MinGap > 0 && tooMany(1, p.MinGap) {
		return fmt.Sprintf("min_gap %s is shorter than %s: nobody receives %d a second; leave it out", FormatPeriod(p.MinGap), time.Second/MaxPerSecond, MaxPerSecond)
	}
	longest := time.Duration(0)
	for _, r := range p.Rates {
		if tooMany(r.Count, r.Period) {
			return fmt.Sprintf("rate %s allows more than %d a second: nobody receives as much; lower it or leave it out", r, MaxPerSecond)
		}
		longest = max(longest, r.Period)
	}
	if longest > 0 && p.MinGap > longest {
		return fmt.Sprintf("min_gap %s is longer than every rate's period, so that no rate says anything: shorten it or leave the rates out", FormatPeriod(p.MinGap))
	}
	return ""
}

// Warnings answers what is odd about a valid policy, each beginning with the
// limit that it is about: a limit that another one makes void, a rate whose
// count costs memory. Empty when nothing is.
func Warnings(p Policy) []string {
	var odd []string
	for i, r := range p.Rates {
		if gap := (Rate{1, p.MinGap}); p.MinGap > 0 && gap.implies(r) {
			odd = append(odd, fmt.Sprintf("rate %s never decides: min_gap %s alone allows at most %d in %s",
				r, FormatPeriod(p.MinGap), gap.most(r.Period), FormatPeriod(r.Period)))
			continue
		}
		for j, by := range p.Rates {
			if i != j && by.implies(r) {
				odd = append(odd, fmt.Sprintf("rate %s never decides: rate %s alone allows at most %d in %s",
					r, by, by.most(r.Period), FormatPeriod(r.Period)))
				break
			}
		}
		if r.Count > manyAdmissions {
			odd = append(odd, fmt.Sprintf("rate %s keeps up to %d admissions of each user in Redis's memory", r, r.Count))
		}
	}
	for _, r := range p.Rates {
		if gap := (Rate{1, p.MinGap}); p.MinGap > 0 && r.implies(gap) && !gap.implies(r) {
			odd = append(odd, fmt.Sprintf("min_gap %s never decides: rate %s alone keeps them as far apart", FormatPeriod(p.MinGap), r))
			break
		}
	}
	return odd
}
