package compare

import (
	"container/heap"
	"slices"
	"time"
)

// A limiter is a contestant at work, in virtual time.
type limiter interface {
	// take takes a unit of a key at an instant in µs, which may be used left µs later.
	// When there is none, left is when to come back.
	take(key int32, now int64) (left int64, taken bool)
}

// ask lets the arrivals ask once each. It returns when which were let through, and how
// long each of those waits then, in µs.
func ask(l limiter, a *Arrivals) (admissions []admission, waited []int64) {
	for i, at := range a.at {
		if left, taken := l.take(a.key[i], at); taken {
			admissions = append(admissions, admission{at + left, a.key[i]})
			waited = append(waited, left)
		}
	}
	return admissions, waited
}

// maxReturns is how often one that is denied comes back in vain, each time at the
// instant it was told, before it gives up.
const maxReturns = 5

// waits lets who is denied come back when it was told, and returns how long each has
// waited, in µs, and how many of them have given up. Where denied attempts are not
// charged, all of a key that wait would be denied together: they make up one line, of
// which the first asks.
func waits(l limiter, a *Arrivals, charges bool) (waited []int64, gaveUp int) {
	var due returns
	lines := make([]line, a.keys)
	if charges {
		lines = make([]line, len(a.at))
	}
	of := func(i int) int32 {
		if charges {
			return int32(i)
		}
		return a.key[i]
	}
	for i := 0; i < len(a.at) || len(due) > 0; {
		if len(due) == 0 || i < len(a.at) && a.at[i] < due[0].at {
			own := &lines[of(i)]
			if len(own.waiting) > 0 {
				own.waiting = append(own.waiting, int32(i))
			} else if left, taken := l.take(a.key[i], a.at[i]); taken {
				waited = append(waited, left)
			} else {
				own.waiting = append(own.waiting, int32(i))
				heap.Push(&due, comeback{a.at[i] + max(1, left), of(i)})
			}
			i++
			continue
		}
		next := &due[0]
		own := &lines[next.line]
		first := own.waiting[0]
		left, taken := l.take(a.key[first], next.at)
		switch {
		case taken:
			waited = append(waited, next.at+left-a.at[first])
			own.waiting, own.vain = own.waiting[1:], 0
		case own.vain+1 == maxReturns:
			waited = append(waited, next.at-a.at[first])
			own.waiting, own.vain = own.waiting[1:], 0
			gaveUp++
			next.at += max(1, left)
		default:
			own.vain++
			next.at += max(1, left)
		}
		if len(own.waiting) == 0 {
			own.waiting = nil
			heap.Pop(&due)
		} else {
			heap.Fix(&due, 0)
		}
	}
	return waited, gaveUp
}

// A line is who waits for room, and how often its first one has come back in vain.
type line struct {
	waiting []int32 // by their place among the arrivals
	vain    int
}

// A comeback is when the first of a line asks again.
type comeback struct {
	at   int64
	line int32
}

type returns []comeback

func (r returns) Len() int { return len(r) }
func (r returns) Less(i, j int) bool {
	return r[i].at < r[j].at || r[i].at == r[j].at && r[i].line < r[j].line
}
func (r returns) Swap(i, j int) { r[i], r[j] = r[j], r[i] }
func (r *returns) Push(c any)   { *r = append(*r, c.(comeback)) }
func (r *returns) Pop() any {
	last := len(*r) - 1
	c := (*r)[last]
	*r = (*r)[:last]
	return c
}

// meanAndHigh returns the mean of the waits, and what 99 of 100 do not exceed. It puts
// them in order.
func meanAndHigh(waited []int64) (mean, high time.Duration) {
	if len(waited) == 0 {
		return 0, 0
	}
	slices.Sort(waited)
	sum := 0.
	for _, w := range waited {
		sum += float64(w)
	}
	mean = time.Duration(sum / float64(len(waited)) * float64(time.Microsecond))
	return mean, time.Duration(waited[(len(waited)*99+99)/100-1]) * time.Microsecond
}
