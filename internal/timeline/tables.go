package timeline

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rivo/uniseg"

	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/control"
)

// bar is how wide the bar of a limit is, where there is room for one.
const bar = 10

// limits says of each limit how much is used and when the next one is free.
func (d *drawing) limits() {
	t := table{{"LIMIT", "USED", "NEXT"}}
	roomy := d.width >= 60
	if roomy {
		t[0] = []string{"LIMIT", "USED", "", "NEXT"}
	}
	for _, s := range d.t.Scopes {
		if s.Quiet != nil {
			line := []string{heading(s.Scope) + " quiet hours", "", opens(d.t, s.Quiet)}
			if roomy {
				line = slices.Insert(line, 1, "")
			}
			t = append(t, line)
		}
		if len(s.Limits) == 0 && s.Quiet == nil {
			t = append(t, []string{heading(s.Scope), Unlimited(s)})
			continue
		}
		for _, w := range s.Limits {
			used := strconv.Itoa(w.Used)
			if w.AtLeast {
				used += "+"
			}
			next := "now"
			switch {
			case w.Free.IsZero():
				next = "not known"
			case w.Free.After(d.t.Now):
				next = "in " + words.Span(w.Free.Sub(d.t.Now))
			}
			line := []string{heading(s.Scope) + " " + Rule(w), used + "/" + strconv.Itoa(w.Count)}
			if roomy {
				line[1] = used + " of " + strconv.Itoa(w.Count)
				n := min(bar, (w.Used*bar+w.Count-1)/w.Count)
				line = append(line, strings.Repeat(d.marks.full, n)+strings.Repeat(d.marks.empty, bar-n))
			}
			t = append(t, append(line, next))
		}
	}
	d.table(t)
}

// opens says when quiet hours let the next one pass.
func opens(t *control.Timeline, q *control.Quiet) string {
	if end := q.End(t.Now); !end.IsZero() {
		return "in " + words.Span(end.Sub(t.Now))
	}
	return "now"
}

// waiters lists who waits.
func (d *drawing) waiters() {
	if len(d.t.Bookings) == 0 {
		return
	}
	roomy := d.width >= 100
	t := table{{"IN", "WAITS FOR", "STATE", "ID"}}
	if roomy {
		t[0] = append([]string{"SLOT"}, t[0]...)
	}
	for i := range d.t.Bookings[:min(len(d.t.Bookings), listed)] {
		w := &d.t.Bookings[i]
		in := "due"
		if left := w.Slot.Sub(d.t.Now); left > 0 {
			in = words.Span(left)
		} else if -left >= late {
			in = words.Span(-left) + " ago"
		}
		line := []string{in, bound(w, Period(d.t, w)), State(w), words.Printable(w.ID)}
		if roomy {
			line = append([]string{words.Stamp(w.Slot)}, line...)
		}
		t = append(t, line)
	}
	d.table(t)
	if rest := len(d.t.Bookings) - listed; rest > 0 {
		fmt.Fprintf(&d.out, "and %d more, which --json lists\n", rest)
	}
}

// bound names in few words the limit that a notification waits for.
func bound(w *control.Waiter, period time.Duration) string {
	rule := w.Rule
	switch rule {
	case throttle.GapRule:
		rule = "gap " + words.Span(period)
	case throttle.QuietRule:
		rule = "quiet hours"
	}
	if w.Scope == throttle.General {
		return strings.TrimSpace("general " + rule)
	}
	return strings.TrimSpace(words.Printable(w.Scope) + " " + rule)
}

// A table has a line of names first.
type table [][]string

// table writes the lines with their columns under each other. The first one is
// cut where it has to be, and the last one runs on.
func (d *drawing) table(t table) {
	var widths []int
	for _, line := range t {
		for i, cell := range line {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if i < len(line)-1 {
				widths[i] = max(widths[i], min(uniseg.StringWidth(cell), d.width*2/5))
			}
		}
	}
	d.out.WriteString("\n")
	for n, line := range t {
		var b strings.Builder
		for i, cell := range line {
			if i < len(line)-1 {
				cell = fit(cell, widths[i], d.marks.cut) + "  "
			}
			b.WriteString(cell)
		}
		text := strings.TrimRight(b.String(), " ")
		if n == 0 {
			text = d.marks.paint(dim, text)
		}
		d.out.WriteString(text + "\n")
	}
}
