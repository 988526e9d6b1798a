package timeline

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// listed bounds the sent and the waiting notifications that Print lists.
const listed = 20

// Print writes the timeline as tables: the limits, the sent notifications and the waiting
// ones. Its first line says why the next notification waits.
func Print(out io.Writer, t *inspect.Timeline) error {
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
	_ = w.Flush() // writing to memory does not fail
	for line := range strings.Lines(aligned.String()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
}

// limitRows has, for each limit, how much of it is used and when the next notification may go.
func limitRows(t *inspect.Timeline) [][]string {
	rows := [][]string{{"LIMIT", "USED", "NEXT"}}
	for _, s := range t.Scopes {
		for i, l := range Limits(t, s) {
			next := "now"
			switch {
			case l.Used == "":
				next = ""
			case !l.Known:
				next = "not known"
			case !l.Free.IsZero():
				next = "in " + words.Span(l.Free.Sub(t.Now))
			}
			row := []string{heading(s.Scope) + " " + l.Rule, l.Used, next}
			if i == 0 {
				row = append(row, overriding(s)...)
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// A LimitRow is a limit in force, or the reason why a scope has no limit.
type LimitRow struct {
	Rule  string
	Used  string // "" if nothing is counted
	Known bool   // whether it is known when the next notification may go
	Free  time.Time
}

// Limits returns a scope's limits, each with its use and the next free time; zero means now.
func Limits(t *inspect.Timeline, s inspect.TimelineScope) (all []LimitRow) {
	if s.Muted {
		all = append(all, LimitRow{Rule: "muted"})
	}
	if q := s.Quiet; q != nil {
		row := LimitRow{"quiet " + q.Hours.String() + " in " + q.Zone, "open", true, q.End(t.Now)}
		if !row.Free.IsZero() {
			row.Used = "closed"
		}
		all = append(all, row)
	}
	for _, w := range s.Limits {
		row := LimitRow{Rule: Rule(w), Used: Used(w), Known: !w.Free.IsZero()}
		if w.Free.After(t.Now) {
			row.Free = w.Free
		}
		all = append(all, row)
	}
	if len(all) == 0 {
		all = append(all, LimitRow{Rule: Unlimited(s)})
	}
	return all
}

// Used describes how much of a limit is used.
func Used(w inspect.Window) string {
	more := ""
	if w.AtLeast {
		more = " or more"
	}
	return words.Grouped(w.Used) + more + " of " + words.Grouped(w.Count)
}

// A SentRow is a sent notification, with its category if that has its own limits.
type SentRow struct {
	throttle.Entry
	Category string
}

// Sent returns the sent notifications, each once, the newest first.
func Sent(t *inspect.Timeline) (all []SentRow) {
	at := map[throttle.Entry]int{}
	for _, s := range t.Scopes {
		for _, a := range s.Admissions {
			i, known := at[a]
			if !known {
				i, at[a] = len(all), len(all)
				all = append(all, SentRow{Entry: a})
			}
			if s.Scope != throttle.General {
				all[i].Category = s.Scope
			}
		}
	}
	slices.SortStableFunc(all, func(a, b SentRow) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.ID, b.ID)) })
	return all
}

// sentRows lists the newest sent notifications.
func sentRows(t *inspect.Timeline) [][]string {
	rows := [][]string{{"SENT", "AGO", "CATEGORY", "ID"}}
	all := Sent(t)
	for _, s := range all[:min(len(all), listed)] {
		rows = append(rows, []string{words.Stamp(s.At), words.Span(t.Now.Sub(s.At)), words.Printable(cmp.Or(s.Category, "-")), words.Printable(s.ID)})
	}
	return rows
}

// In describes the time until a notification's slot.
func In(t *inspect.Timeline, w *inspect.Waiter) string {
	left := w.Slot.Sub(t.Now)
	switch {
	case left > 0:
		return "in " + words.Span(left)
	case left <= -late:
		return words.Span(-left) + " ago"
	}
	return "due"
}

// waitingRows lists the notifications with slots, the next one first.
func waitingRows(t *inspect.Timeline) [][]string {
	rows := [][]string{{"SLOT", "IN", "WAITS FOR", "STATE", "ID"}}
	for i := range t.Bookings[:min(len(t.Bookings), listed)] {
		w := &t.Bookings[i]
		rows = append(rows, []string{words.Stamp(w.Slot), strings.TrimPrefix(In(t, w), "in "), bound(w, Period(t, w)), State(w), words.Printable(w.ID)})
	}
	return rows
}

// heading returns a scope's name for a table.
func heading(scope string) string {
	if scope == throttle.General {
		return "general"
	}
	return words.Printable(scope)
}

// overriding names the override that sets a scope's limits; nil for the configuration.
func overriding(s inspect.TimelineScope) []string {
	if s.Source == "" || s.Source == limits.FromConfiguration {
		return nil
	}
	text := "overridden for the " + string(s.Source)
	if !s.Until.IsZero() {
		text += " until " + words.Stamp(s.Until)
	}
	return []string{text}
}

// Unlimited describes a scope without limits: it is muted, or the reason why it has no limits.
func Unlimited(s inspect.TimelineScope) string {
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
func Rule(w inspect.Window) string {
	if w.Rule == "gap" {
		return "gap " + words.Span(time.Duration(w.Period))
	}
	return w.Rule
}

// bound names briefly the limit that a notification waits for.
func bound(w *inspect.Waiter, period time.Duration) string {
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
