package timeline

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
)

// listed is how many sent and how many waiting notifications Print lists.
const listed = 20

// Print writes the timeline as tables: the limits, the sent notifications and the waiting
// ones. Its first line says why the next notification waits.
func Print(out io.Writer, t *control.Timeline) error {
	text := Answer(t).String()
	if others := Others(t); others != nil {
		text += " " + others.String()
	}
	var b strings.Builder
	b.WriteString(text + "\n")
	writeTable(&b, limitRows(t))
	writeTable(&b, sentRows(t))
	writeTable(&b, waitingRows(t))
	if rest := len(t.Bookings) - listed; rest > 0 {
		fmt.Fprintf(&b, "and %d more, which --json lists\n", rest)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// writeTable writes the rows below an empty line, unless there is only the header.
func writeTable(b *strings.Builder, rows [][]string) {
	if len(rows) < 2 {
		return
	}
	b.WriteString("\n")
	var aligned strings.Builder
	w := tabwriter.NewWriter(&aligned, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // to memory
	for line := range strings.Lines(aligned.String()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
}

// limitRows says of each limit how much is used and when the next notification may go.
func limitRows(t *control.Timeline) [][]string {
	rows := [][]string{{"LIMIT", "USED", "NEXT"}}
	for _, s := range t.Scopes {
		first := len(rows)
		add := func(name, used, next string) {
			rows = append(rows, []string{heading(s.Scope) + name, used, next})
		}
		if s.Quiet != nil {
			next := "now"
			if end := s.Quiet.End(t.Now); !end.IsZero() {
				next = "in " + words.Span(end.Sub(t.Now))
			}
			add(" quiet hours", "", next)
		}
		if len(s.Limits) == 0 && s.Quiet == nil {
			row := []string{heading(s.Scope), Unlimited(s)}
			if n := notes(s); len(n) > 0 {
				row = append(append(row, ""), n...)
			}
			rows = append(rows, row)
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
			case w.Free.After(t.Now):
				next = "in " + words.Span(w.Free.Sub(t.Now))
			}
			add(" "+Rule(w), used+" of "+strconv.Itoa(w.Count), next)
		}
		rows[first] = append(rows[first], notes(s)...)
	}
	return rows
}

// sentRows lists the newest sent notifications, each once, with their category where it
// has limits of its own.
func sentRows(t *control.Timeline) [][]string {
	type sent struct {
		throttle.Entry
		category string
	}
	byID := map[string]sent{}
	for _, s := range t.Scopes {
		for _, a := range s.Admissions {
			category := "-"
			if s.Scope != throttle.General {
				category = words.Printable(s.Scope)
			}
			if _, known := byID[a.ID]; !known || category != "-" {
				byID[a.ID] = sent{a, category}
			}
		}
	}
	all := make([]sent, 0, len(byID))
	for _, s := range byID {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b sent) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.ID, b.ID)) })
	rows := [][]string{{"SENT", "AGO", "CATEGORY", "ID"}}
	for _, s := range all[:min(len(all), listed)] {
		rows = append(rows, []string{words.Stamp(s.At), words.Span(max(0, t.Now.Sub(s.At))), s.category, words.Printable(s.ID)})
	}
	return rows
}

// waitingRows lists the notifications that have slots, the next ones first.
func waitingRows(t *control.Timeline) [][]string {
	rows := [][]string{{"SLOT", "IN", "WAITS FOR", "STATE", "ID"}}
	for i := range t.Bookings[:min(len(t.Bookings), listed)] {
		w := &t.Bookings[i]
		in := "due"
		if left := w.Slot.Sub(t.Now); left > 0 {
			in = words.Span(left)
		} else if -left >= late {
			in = words.Span(-left) + " ago"
		}
		rows = append(rows, []string{words.Stamp(w.Slot), in, bound(w, Period(t, w)), State(w), words.Printable(w.ID)})
	}
	return rows
}

// heading is a scope's name in a table.
func heading(scope string) string {
	if scope == throttle.General {
		return "general"
	}
	return words.Printable(scope)
}

// notes say whether a scope is muted, and which override sets its limits.
func notes(s control.TimelineScope) (all []string) {
	if s.Muted && (len(s.Limits) > 0 || s.Quiet != nil) { // else Unlimited says it
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

// Rule names a limit in its scope.
func Rule(w control.Window) string {
	if w.Rule == "gap" {
		return "gap " + words.Span(time.Duration(w.Period))
	}
	return w.Rule
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
