// Package lately tells of the last minutes from counts that only grow: whoever counts
// adds, and nothing else; whoever tells looks at the counts now and then.
package lately

import (
	"iter"
	"time"
)

// Kept is how many minutes are told of, with the one under way.
const Kept = 15

// A Series is by how much counts have grown in each minute. Its zero value begins with
// counts of zero. It is one goroutine's.
type Series struct {
	marks []mark
	now   []int64
}

// A mark is how the counts stood when a minute began, in Unix minutes.
type mark struct {
	minute int64
	stood  []int64
}

// Note takes in how the counts stand at that instant. Later ones may be more. What has
// grown between two calls is the later one's minute's.
func (s *Series) Note(at time.Time, counts []int64) {
	minute := at.Unix() / 60
	if n := len(s.marks); n == 0 || minute > s.marks[n-1].minute { // else the clock may have been set back
		s.marks = append(s.marks, mark{minute, s.now})
	}
	for s.marks[0].minute <= minute-Kept {
		s.marks = s.marks[1:]
	}
	s.now = counts
}

// Grown returns by how much the counts have grown in so many minutes at most, of which
// the one under way is the last.
func (s *Series) Grown(minutes int64) []int64 {
	for _, m := range s.marks {
		if m.minute > s.marks[len(s.marks)-1].minute-minutes {
			return less(s.now, m.stood)
		}
	}
	return nil
}

// Minutes are those of which something is known, the oldest first, and by how much the
// counts have grown in each.
func (s *Series) Minutes() iter.Seq2[time.Time, []int64] {
	return func(yield func(time.Time, []int64) bool) {
		for i, m := range s.marks {
			end := s.now
			if i+1 < len(s.marks) {
				end = s.marks[i+1].stood
			}
			if !yield(time.Unix(60*m.minute, 0).UTC(), less(end, m.stood)) {
				return
			}
		}
	}
}

// less returns a copy of the counts without those that were there before.
func less(counts, before []int64) []int64 {
	grown := make([]int64, len(counts))
	copy(grown, counts)
	for i, n := range before {
		grown[i] -= n
	}
	return grown
}
