// Package slidingstats computes statistics of the last minutes from counts that only grow. It adds
// no cost to counting: a reader samples the counts now and then. Start with Series.
package slidingstats

import (
	"iter"
	"time"
)

// Window is the number of minutes that a Series covers, including the current one.
const Window = 15

// A Series holds the growth of counts in each minute. The zero value begins with counts of zero.
// Not safe for concurrent use.
type Series struct {
	marks []mark
	now   []int64
}

// A mark holds the counts at the beginning of a minute, in Unix minutes.
type mark struct {
	minute int64
	stood  []int64
}

// Sample records the counts at that instant. A later call may pass more counts. The growth since
// the previous call belongs to the minute of at.
func (s *Series) Sample(at time.Time, counts []int64) {
	minute := at.Unix() / 60
	if n := len(s.marks); n == 0 || minute > s.marks[n-1].minute { // not if the clock was set back
		s.marks = append(s.marks, mark{minute, s.now})
	}
	for s.marks[0].minute <= minute-Window {
		s.marks = s.marks[1:]
	}
	s.now = counts
}

// Growth returns the growth of the counts in the last minutes, at most that many, including the
// current one.
func (s *Series) Growth(minutes int64) []int64 {
	for _, m := range s.marks {
		if m.minute > s.marks[len(s.marks)-1].minute-minutes {
			return subtract(s.now, m.stood)
		}
	}
	return nil
}

// Minutes yields the known minutes, the oldest first, and the growth of the counts in each.
func (s *Series) Minutes() iter.Seq2[time.Time, []int64] {
	return func(yield func(time.Time, []int64) bool) {
		for i, m := range s.marks {
			end := s.now
			if i+1 < len(s.marks) {
				end = s.marks[i+1].stood
			}
			if !yield(time.Unix(60*m.minute, 0).UTC(), subtract(end, m.stood)) {
				return
			}
		}
	}
}

// subtract returns counts minus the earlier counts.
func subtract(counts, earlier []int64) []int64 {
	grown := make([]int64, len(counts))
	copy(grown, counts)
	for i, n := range earlier {
		grown[i] -= n
	}
	return grown
}
