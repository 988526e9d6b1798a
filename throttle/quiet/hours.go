package quiet

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/base/zone"
)

// Hours are the quiet hours of a policy, in no order. None are never quiet.
type Hours []Window

// MaxWindows is how many there may be: two for each day of the week, and two of all days. Closed
// looks at each for each day.
const MaxWindows = 16

// None is what stands for no quiet hours where somebody writes some.
const None = "none"

// ParseHours reads windows as Parse does, or None alone. Its error is that there are too many, the first of
// Parse's, or that of Validate.
func ParseHours(texts []string) (Hours, error) {
	if len(texts) == 1 && texts[0] == None {
		return Hours{}, nil
	}
	h := make(Hours, len(texts))
	if fault := h.tooMany(); fault != nil {
		return nil, fault
	}
	for i, text := range texts {
		var err error
		if h[i], err = Parse(text); err != nil {
			return nil, err
		}
	}
	return h, h.Validate()
}

func (h Hours) tooMany() error {
	if len(h) <= MaxWindows {
		return nil
	}
	return fmt.Errorf("there are %d quiet hours; at most %d are allowed", len(h), MaxWindows)
}

// Validate reports too many windows, one that is there twice, and hours that leave no time to
// send.
func (h Hours) Validate() error {
	if err := h.tooMany(); err != nil {
		return err
	}
	for i, w := range h {
		if slices.Contains(h[:i], w) {
			return fault(w.String(), " is there twice")
		}
	}
	if len(h) > 0 && h.LongestOpen() == 0 {
		return errors.New("quiet_hours leave no time to send: pause the category instead")
	}
	return nil
}

// LongestOpen is how long the longest stretch is that is open, in weeks whose clocks
// do not jump.
func (h Hours) LongestOpen() time.Duration {
	var quiet [2 * 7 * day]bool // a week, and again
	for _, w := range h {
		length := w.Upto - w.From
		if length <= 0 {
			length += day
		}
		for d := range time.Weekday(7) {
			for m := 0; w.Days.Has(d) && m < length; m++ {
				at := (int(d)*day + w.From + m) % (7 * day)
				quiet[at], quiet[at+7*day] = true, true
			}
		}
	}
	longest, open := 0, 0
	for _, q := range quiet {
		if open++; q {
			open = 0
		}
		longest = max(longest, open)
	}
	return time.Duration(longest) * time.Minute
}

// String is the hours as a list of what Parse reads.
func (h Hours) String() string {
	texts := make([]string, len(h))
	for i, w := range h {
		texts[i] = w.String()
	}
	return strings.Join(texts, ", ")
}

// An Interval is quiet from an instant up to another, in Unix s.
type Interval struct{ From, Upto int64 }

// Closed returns the intervals that are quiet by the zone's clocks and touch the time from an
// instant up to another, in Unix s and in their order, each whole. Those that touch are one.
// The hours are valid.
//
// A window that begins on a date is quiet from the first instant that shows its beginning or
// later, up to the end of the last one that shows less than its end. Where clocks jump, and
// on dates that never were, nothing else is needed.
func (h Hours) Closed(in *time.Location, from, upto int64) []Interval {
	var all []Interval
	if len(h) == 0 || upto <= from {
		return nil
	}
	last := time.Unix(upto, 0).Add(reach)
	for at := time.Unix(from, 0).UTC().Add(-reach); at.Before(last); at = at.AddDate(0, 0, 1) {
		year, month, date := at.Date()
		for _, w := range h {
			if !w.Days.Has(at.Weekday()) {
				continue
			}
			end := w.Upto
			if end <= w.From {
				end += day
			}
			i := Interval{zone.At(year, month, date, w.From).First(in), zone.At(year, month, date, end).Past(in)}
			if i.From < i.Upto {
				all = append(all, i)
			}
		}
	}
	all = joined(all)
	return slices.DeleteFunc(all, func(i Interval) bool { return i.Upto <= from || i.From >= upto })
}

// joined returns the intervals in their order, those that touch as one.
func joined(all []Interval) []Interval {
	slices.SortFunc(all, func(a, b Interval) int { return cmp.Compare(a.From, b.From) })
	n := 0
	for _, i := range all {
		if n > 0 && i.From <= all[n-1].Upto {
			all[n-1].Upto = max(all[n-1].Upto, i.Upto)
			continue
		}
		all[n] = i
		n++
	}
	return all[:n]
}

// Spread has each interval end later by up to so many seconds, and by no more than half of
// what is open behind it: for each user of an app at an instant of their own, another one
// each day. The intervals are some of Closed; the last one stands before what is not known,
// and ends when it does.
func Spread(closed []Interval, app, user string, seconds int64) []Interval {
	spread := slices.Clone(closed)
	for i := range spread {
		spread[i].Upto += later(closed, i, app, user, seconds)
	}
	return spread
}

// later is by how much later the k-th interval ends for the user.
func later(closed []Interval, k int, app, user string, seconds int64) int64 {
	most := mostLater(closed, k, seconds)
	if most <= 0 {
		return 0
	}
	sum := sha256.Sum256([]byte(strconv.FormatInt(closed[k].Upto, 10) + "/" + app + "/" + user))
	return int64(binary.BigEndian.Uint64(sum[:]) % uint64(most))
}

// mostLater is by how much later the k-th interval may end.
func mostLater(closed []Interval, k int, seconds int64) int64 {
	if k+1 >= len(closed) {
		return 0
	}
	return max(0, min(seconds, (closed[k+1].From-closed[k].Upto)/2))
}
