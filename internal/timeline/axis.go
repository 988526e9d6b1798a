package timeline

import (
	"math"
	"time"

	"github.com/pushpace/pushpace/worker/control"
)

// An axis maps instants to columns around now. Near now it is even, at the scale
// of the shortest limit, and far from it logarithmic, so that a gap of a second
// and a day's rate stand on the same one.
type axis struct {
	now          time.Time
	scale        float64 // s
	past, future time.Duration
	centre       int // the column of now
	columns      int
}

func newAxis(t *control.Timeline, columns int) axis {
	a := axis{now: t.Now, scale: math.Inf(1), past: time.Second, future: time.Second, centre: columns / 2, columns: columns}
	for _, s := range t.Scopes {
		for _, w := range s.Limits {
			a.scale = min(a.scale, time.Duration(w.Period).Seconds())
			a.past = max(a.past, time.Duration(w.Period))
			a.future = max(a.future, w.Free.Sub(a.now))
		}
		if end := s.Quiet.End(a.now); !end.IsZero() {
			a.future = max(a.future, end.Sub(a.now))
		}
		if n := len(s.Admissions); n > 0 {
			a.future = max(a.future, s.Admissions[n-1].At.Sub(a.now))
		}
	}
	if math.IsInf(a.scale, 1) { // quiet hours alone
		a.scale = 1
	}
	if n := len(t.Bookings); n > 0 {
		a.future = max(a.future, t.Bookings[n-1].Slot.Sub(a.now))
		a.past = max(a.past, a.now.Sub(t.Bookings[0].Slot))
	}
	return a
}

// column answers where the instant stands, and false when that is further back
// than the axis reaches.
func (a *axis) column(at time.Time) (int, bool) {
	d := at.Sub(a.now)
	if d > 0 {
		return a.centre + 1 + a.place(d, a.future, a.columns-a.centre-2), true
	}
	return a.centre - 1 - a.place(-d, a.past, a.centre-1), -d <= a.past
}

// place puts a distance from now on a side of so many columns.
func (a *axis) place(d, furthest time.Duration, columns int) int {
	far := math.Log1p(furthest.Seconds() / a.scale)
	return int(math.Round(min(1, math.Log1p(d.Seconds()/a.scale)/far) * float64(columns)))
}

// ticks are the distances that are written below the axis, if there is room.
var ticks = []struct {
	d    time.Duration
	text string
}{
	{30 * 24 * time.Hour, "30d"}, {7 * 24 * time.Hour, "7d"}, {24 * time.Hour, "1d"}, {6 * time.Hour, "6h"}, {time.Hour, "1h"},
	{10 * time.Minute, "10m"}, {time.Minute, "1m"}, {10 * time.Second, "10s"}, {time.Second, "1s"}, {100 * time.Millisecond, ".1s"},
}

// scaleLine writes the ticks and now.
func (a *axis) scaleLine() string {
	line := []rune(spaces(a.columns))
	write := func(text string, column int) {
		from := min(max(0, column-len(text)/2), a.columns-len(text))
		for i := max(0, from-1); i < min(a.columns, from+len(text)+1); i++ {
			if line[i] != ' ' {
				return // no room
			}
		}
		copy(line[from:], []rune(text))
	}
	write("now", a.centre)
	for _, tick := range ticks {
		if tick.d <= a.past {
			column, _ := a.column(a.now.Add(-tick.d))
			write("-"+tick.text, column)
		}
		if tick.d <= a.future {
			column, _ := a.column(a.now.Add(tick.d))
			write("+"+tick.text, column)
		}
	}
	return string(line)
}
