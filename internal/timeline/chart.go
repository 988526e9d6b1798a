package timeline

import (
	"fmt"
	"strings"
	"time"

	"github.com/rivo/uniseg"

	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
)

func spaces(n int) string { return strings.Repeat(" ", n) }

// heading is what a scope is called where it stands alone.
func heading(scope string) string {
	if scope == throttle.General {
		return "general"
	}
	return words.Printable(scope)
}

// notes say whether a scope is muted, and by whose override its limits are, if by any.
func notes(s control.TimelineScope) (all []string) {
	if s.Muted {
		all = append(all, "muted")
	}
	if s.Source == "" || s.Source == limits.FromConfiguration {
		return all
	}
	text := "overridden for the " + string(s.Source)
	if !s.Until.IsZero() {
		text += " until " + words.Stamp(s.Until)
	}
	return append(all, text)
}

// Unlimited says of a scope without limits that it is muted, or else why it has none.
func Unlimited(s control.TimelineScope) string {
	switch {
	case s.Muted:
		return "muted"
	case s.Quiet != nil:
		return "quiet hours alone"
	case s.Exempt:
		return "exempt"
	case s.Scope == throttle.General:
		return "not limited"
	}
	return "no limits of its own"
}

// chart draws each scope's entries and windows on the axis.
func (d *drawing) chart() {
	label := 0
	limited := false
	for _, s := range d.t.Scopes {
		label = max(label, uniseg.StringWidth(heading(s.Scope)))
		limited = limited || s.Quiet != nil
		for _, w := range s.Limits {
			limited = true
			label = max(label, 2+uniseg.StringWidth(Rule(w)))
		}
	}
	if !limited {
		return
	}
	label = min(max(label, len("  booked")), d.width/3)
	a := newAxis(d.t, d.width-label-1)
	row := func(name string, r *row) {
		fmt.Fprintf(&d.out, "%s %s\n", fit(name, label, d.marks.cut), r.text(d.marks))
	}
	fmt.Fprintf(&d.out, "\n%s %s\n", spaces(label), d.marks.paint(dim, strings.TrimRight(a.scaleLine(), " ")))
	for _, s := range d.t.Scopes {
		if len(s.Limits) == 0 && s.Quiet == nil {
			continue
		}
		d.out.WriteString(d.marks.paint(bold, strings.TrimRight(fit(heading(s.Scope), d.width, d.marks.cut), " ")) + "\n")
		for _, note := range notes(s) {
			for _, line := range wrap(note, d.width-2) {
				d.out.WriteString("  " + line + "\n")
			}
		}
		sent, booked := newRow(&a, d.marks, green), newRow(&a, d.marks, yellow)
		for _, admission := range s.Admissions {
			sent.mark(admission.At)
		}
		for _, b := range d.t.Bookings {
			if b.Scope == s.Scope {
				booked.mark(b.Slot)
			}
		}
		if s.Quiet != nil {
			r := newRow(&a, d.marks, dim)
			r.quiet(s.Quiet)
			row("  quiet", r)
		}
		row("  sent", sent.counted())
		if booked.entries > 0 {
			row("  booked", booked.counted())
		}
		for _, w := range s.Limits {
			r := newRow(&a, d.marks, none)
			r.window(w)
			row("  "+Rule(w), r)
		}
	}
}

// Rule names a limit in its scope.
func Rule(w control.Window) string {
	if w.Rule == "gap" {
		return "gap " + words.Span(time.Duration(w.Period))
	}
	return w.Rule
}

// A row is one line of the chart.
type row struct {
	a       *axis
	marks   marks
	cells   []rune
	paint   paint
	counts  []int
	entries int
}

func newRow(a *axis, m marks, p paint) *row {
	r := &row{a: a, marks: m, cells: []rune(spaces(a.columns)), counts: make([]int, a.columns), paint: p}
	r.cells[a.centre] = m.now
	return r
}

// mark notes an entry at the instant.
func (r *row) mark(at time.Time) {
	if column, ok := r.a.column(at); ok {
		r.counts[column]++
		r.entries++
	}
}

// counted draws the entries.
func (r *row) counted() *row {
	for i, n := range r.counts {
		if n > 0 {
			r.cells[i] = r.marks.count(n)
		}
	}
	return r
}

// quiet draws what is closed.
func (r *row) quiet(q *control.Quiet) {
	for _, c := range q.Closed {
		if !c.From.Before(r.a.now.Add(r.a.future)) {
			break
		}
		from, _ := r.a.column(c.From)
		until, _ := r.a.column(c.Until)
		for i := from; i < until; i++ {
			if i != r.a.centre {
				r.cells[i] = r.marks.quiet
			}
		}
	}
}

// window draws a limit's window, and beyond now until when it is used up.
func (r *row) window(w control.Window) {
	from, _ := r.a.column(r.a.now.Add(-time.Duration(w.Period)))
	for i := from; i < r.a.centre; i++ {
		r.cells[i] = r.marks.in
	}
	r.cells[from] = r.marks.open
	if !w.Free.After(r.a.now) {
		return
	}
	r.paint = yellow
	free, _ := r.a.column(w.Free)
	for i := r.a.centre + 1; i < free; i++ {
		r.cells[i] = r.marks.used
	}
	r.cells[free] = r.marks.free
}

func (r *row) text(m marks) string {
	line := strings.TrimRight(string(r.cells), " ")
	if !m.coloured || r.paint == none {
		return line
	}
	before, after, _ := strings.Cut(line, string(m.now))
	return m.paint(r.paint, before) + string(m.now) + m.paint(r.paint, after)
}
