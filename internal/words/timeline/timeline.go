// Package timeline puts a user's timeline into words and tables: the reason and the end of
// the next notification's wait, the limits, and the sent and waiting notifications.
package timeline

import (
	"strconv"
	"time"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
)

// Answer returns a sentence on why the user's next notification waits and until when.
func Answer(t *inspect.Timeline) words.Sentence {
	who := words.Printable(t.User)
	if t.App != "" {
		who += " in " + words.Printable(t.App)
	}
	who += ": "
	if ahead := ahead(t); ahead > 0 {
		who += "Redis's clock was set back, and the last push counts as sent in " + words.Span(ahead) + ", so nothing is sent before. "
	}
	if next := Next(t); next != nil {
		return words.Say(who, whyWaits(t, next))
	}
	limited := false
	for _, s := range t.Scopes {
		limited = limited || len(s.Limits) > 0 || s.Quiet != nil
	}
	switch end := t.Scopes[0].Quiet.End(t.Now); {
	case t.Scopes[0].Muted:
		return words.Say(who, "muted, so that what comes is not sent and ends muted, unless it passes mutes.")
	case !end.IsZero():
		return words.Say(who, "nothing waits. The general quiet hours end in ", words.Span(end.Sub(t.Now)), ", at ", end, ".")
	case !limited:
		return words.Say(who, "no limit applies, so nothing waits for one.")
	}
	if scope, w := latest(t.Scopes[0]); w != nil && w.Free.After(t.Now) {
		return words.Say(who, "nothing waits. The next one may go out in ", words.Span(w.Free.Sub(t.Now)), ", at ", w.Free,
			", by ", words.Limit(scope, w.Rule, time.Duration(w.Period)), ".")
	}
	return words.Say(who, "nothing waits for a limit, and the general limits let the next one pass at once.")
}

// ahead returns how far the newest admission is ahead of Redis's clock, 0 for less than a second.
// An admission is that far ahead only if the clock was set back, as by a failover.
func ahead(t *inspect.Timeline) (most time.Duration) {
	for _, s := range t.Scopes {
		for _, e := range s.Admissions {
			most = max(most, e.At.Sub(t.Now))
		}
	}
	if most < time.Second {
		return 0
	}
	return most
}

// Next returns the first notification that still waits, or nil.
func Next(t *inspect.Timeline) *inspect.Waiter {
	for i := range t.Bookings {
		if !t.Bookings[i].State.Ended() {
			return &t.Bookings[i]
		}
	}
	return nil
}

// late is how long after its slot a notification still counts as on its way.
const late = 2 * time.Second

func whyWaits(t *inspect.Timeline, next *inspect.Waiter) words.Sentence {
	id := words.Printable(next.ID)
	ago := t.Now.Sub(next.Slot)
	switch {
	case next.Job == "active" && ago < 0:
		return words.Say(id, " is next: it is in a worker, and sent in ", words.Span(-ago), ", at ", next.Slot, ", for ", why(t, next), ".")
	case next.Job == "active":
		return words.Say(id, " is next: in a worker, being sent.")
	case ago < 0:
		return words.Say(id, " is next, and waits another ", words.Span(-ago), ", until ", next.Slot, ", for ", why(t, next), ".")
	case ago < late:
		return words.Say(id, " is next, and due now.")
	}
	return words.Say(id, " is next, and has been due for ", words.Span(ago), ", since ", next.Slot,
		": no limit holds it back, so its workers are away, busy or paused.")
}

// why names the limit of the wait, and the notification that frees it.
func why(t *inspect.Timeline, w *inspect.Waiter) string {
	limit := Period(t, w)
	text := words.Limit(w.Scope, w.Rule, limit)
	switch {
	case w.After.ID == "":
		return text
	case !Exact(w, limit):
		text += ","
	case w.Rule != throttle.GapRule:
		text += ", " + words.Span(limit)
	}
	return text + " after " + words.Printable(w.After.ID)
}

// margin is the most by which a slot may be later than the instant at which its limit is free: the
// distance of two slots, and the tolerance of a slot that could be earlier.
const margin = 25 * time.Millisecond

// Exact reports whether the slot is the first instant that the limit of this period allows. It is
// later behind other notifications, and earlier after a change of limits.
func Exact(w *inspect.Waiter, period time.Duration) bool {
	late := w.Slot.Sub(w.After.At) - period
	return late >= 0 && late <= margin
}

// Period returns the period of the limit that the notification waits for; 0 if it is unknown.
func Period(t *inspect.Timeline, waiter *inspect.Waiter) time.Duration {
	for _, s := range t.Scopes {
		if s.Scope != waiter.Scope {
			continue
		}
		for _, w := range s.Limits {
			if w.Rule == waiter.Rule {
				return time.Duration(w.Period)
			}
		}
	}
	return 0
}

// latest returns the scope's limit that is the last one to admit its next notification.
func latest(s inspect.TimelineScope) (scope string, last *inspect.Window) {
	for i := range s.Limits {
		if last == nil || s.Limits[i].Free.After(last.Free) {
			last = &s.Limits[i]
		}
	}
	return s.Scope, last
}

// Others describes the number of notifications that wait behind the next one.
func Others(t *inspect.Timeline) words.Sentence {
	n := len(t.Bookings)
	if n < 2 || Next(t) == nil {
		return nil
	}
	if n >= throttle.MaxEntries {
		return words.Say(strconv.Itoa(n), " or more have slots.")
	}
	return words.Say(strconv.Itoa(n), " have slots, the last at ", t.Bookings[n-1].Slot, ".")
}

// State describes in a word or two where a notification with a slot is.
func State(w *inspect.Waiter) string {
	switch {
	case w.State == "":
		return "not known"
	case w.State != push.Waiting:
		return string(w.State)
	}
	switch w.Job {
	case "active":
		return "in hand"
	case "pending":
		return "queued"
	case "":
		return "no job"
	}
	return "waits"
}
