// Package quiet computes quiet hours: windows of the week by the clock of the user's time zone.
// Start with Hours.
package quiet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Window is a time of day that begins on some days of the week. The zero value is invalid.
type Window struct {
	Days Days
	// From and Upto are minutes after midnight; From is at most 1,439. If Upto is not after From,
	// the window ends on the next day; 1,440 is midnight, the end of the day.
	From, Upto int
}

// Days is a set of weekdays: bit d is time.Weekday(d).
type Days uint8

// everyDay has all weekdays.
const everyDay Days = 1<<7 - 1

// Has reports whether d contains the day.
func (d Days) Has(day time.Weekday) bool { return d>>day&1 == 1 }

// names are the names of the days in OpenStreetMap's opening hours, from Monday on.
var names = []string{"Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"}

// weekday returns the day with index i in names.
func weekday(i int) time.Weekday { return time.Weekday((i + 1) % 7) }

const day = 24 * 60 // minutes

// Parse parses a window: "22:00-08:00" for every day, or preceded by the days on which it begins,
// as in "Sa-Su 22:00-10:00" or "Mo,We,Fr 12:00-24:00".
func Parse(text string) (w Window, err error) {
	days, span, some := strings.Cut(text, " ")
	if !some {
		days, span = "", text
	}
	from, upto, ok := strings.Cut(span, "-")
	if w.From, ok = minutes(from, ok); ok {
		w.Upto, ok = minutes(upto, true)
	}
	if w.Days = everyDay; some && ok {
		w.Days, ok = parseDays(days)
	}
	switch {
	case !ok || w.From == day:
		return Window{}, fault(text, ": want [DAYS ]HH:MM-HH:MM such as Mo-Fr 22:00-08:00")
	case w.From == w.Upto:
		return Window{}, fault(text, " is empty; a whole day is 00:00-24:00")
	}
	return w, nil
}

func fault(text, problem string) error {
	if len(text) > 40 { // longer than any valid window
		text = text[:40] + "…"
	}
	return fmt.Errorf("quiet_hours %q%s", text, problem)
}

// minutes parses HH:MM.
func minutes(text string, ok bool) (int, bool) {
	if !ok || len(text) != len("HH:MM") || text[2] != ':' || strings.Trim(text[:2]+text[3:], "0123456789") != "" {
		return 0, false
	}
	h, _ := strconv.Atoi(text[:2])
	m, _ := strconv.Atoi(text[3:])
	return h*60 + m, m < 60 && h*60+m <= day
}

// parseDays parses days and ranges of days, separated by commas.
func parseDays(text string) (days Days, ok bool) {
	for _, part := range strings.Split(text, ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		from, upto := slices.Index(names, first), slices.Index(names, last)
		if from < 0 || upto < 0 {
			return 0, false
		}
		for i := from; ; i = (i + 1) % 7 {
			days |= 1 << weekday(i)
			if i == upto {
				break
			}
		}
	}
	return days, true
}

// String returns the window in Parse's form.
func (w Window) String() string {
	span := fmt.Sprintf("%02d:%02d-%02d:%02d", w.From/60, w.From%60, w.Upto/60, w.Upto%60)
	if w.Days == everyDay {
		return span
	}
	return w.Days.String() + " " + span
}

// MarshalText writes w as String does.
func (w Window) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText reads w as Parse does.
func (w *Window) UnmarshalText(text []byte) (err error) {
	*w, err = Parse(string(text))
	return err
}

// String returns the days in Parse's form: runs of three or more as a range.
func (d Days) String() string {
	var parts []string
	for i := 0; i < len(names); i++ {
		if !d.Has(weekday(i)) {
			continue
		}
		last := i
		for last+1 < len(names) && d.Has(weekday(last+1)) {
			last++
		}
		if last-i > 1 {
			parts = append(parts, names[i]+"-"+names[last])
			i = last
		} else {
			parts = append(parts, names[i])
		}
	}
	return strings.Join(parts, ",")
}
