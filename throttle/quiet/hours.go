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

// Hours are the quiet hours of a policy, in no order. Empty Hours are never quiet.
type Hours []Window

// MaxWindows is the largest number of windows: two for each day of the week, and two for all
// days. Closed checks each window for each day.
const MaxWindows = 16

// None is the text form of no quiet hours.
const None = "none"

// ParseHours parses each text as a window with Parse. If None is the only text, there are no
// windows. ParseHours returns an error for too many windows, or the first error of Parse or
// Validate.
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
	return fmt.Errorf("there are %d windows of quiet hours; at most %d are allowed", len(h), MaxWindows)
}

// Validate returns an error for too many windows, a duplicate, or hours that leave no time to
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

// LongestOpen returns the longest time without quiet hours, in a week without clock changes.
func (h Hours) LongestOpen() time.Duration {
	var quiet [2 * 7 * day]bool // two equal weeks
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

// String returns the windows in Parse's form, with commas.
func (h Hours) String() string {
	texts := make([]string, len(h))
	for i, w := range h {
		texts[i] = w.String()
	}
	return strings.Join(texts, ", ")
}

// An Interval is quiet from From until just before Upto, in Unix s.
type Interval struct{ From, Upto int64 }

// Closed returns, in order and in Unix s, the quiet intervals by the zone's clock that overlap the
// time between from and upto. It joins adjacent intervals, and does not cut them at from and upto.
// The hours must be valid.
//
// A window starts at the first instant at which the clock shows its start or later. It ends after
// the last instant at which the clock shows less than its end. This rule also holds at clock
// changes and skipped dates.
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
	all = join(all)
	return slices.DeleteFunc(all, func(i Interval) bool { return i.Upto <= from || i.From >= upto })
}

// join sorts the intervals and joins adjacent ones.
func join(all []Interval) []Interval {
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

// Spread delays the end of each interval by less than seconds, and by at most half of the open
// time after it. Each user of an app has a different delay, on each day a new one. closed is a
// result of Closed; its last interval stays unchanged, as the open time after it is unknown.
func Spread(closed []Interval, app, user string, seconds int64) []Interval {
	spread := slices.Clone(closed)
	for i := range spread {
		spread[i].Upto += endDelay(closed, i, app, user, seconds)
	}
	return spread
}

// endDelay returns the delay of the k-th interval's end for the user.
func endDelay(closed []Interval, k int, app, user string, seconds int64) int64 {
	most := maxEndDelay(closed, k, seconds)
	if most <= 0 {
		return 0
	}
	sum := sha256.Sum256([]byte(strconv.FormatInt(closed[k].Upto, 10) + "/" + app + "/" + user))
	return int64(binary.BigEndian.Uint64(sum[:]) % uint64(most))
}

// maxEndDelay returns the largest delay of the k-th interval's end.
func maxEndDelay(closed []Interval, k int, seconds int64) int64 {
	if k+1 >= len(closed) {
		return 0
	}
	return max(0, min(seconds, (closed[k+1].From-closed[k].Upto)/2))
}
