package main

import (
	"time"

	"github.com/pushpace/pushpace/internal/timeline"
	"github.com/pushpace/pushpace/worker/control"
)

// printWaits says what a notification waits for, and until when.
func printWaits(line func(name, format string, args ...any), s *control.Status, now time.Time) {
	w := s.Waits
	reason := ""
	if w.Reason != "" {
		reason = ": " + timeline.Printable(w.Reason)
	}
	told := len(s.Paused) > 0 && (w.For == control.ForPause || w.For == control.ForProvider)
	for _, p := range s.Paused {
		name := "paused"
		if told {
			name = "waits for"
		}
		line(name, "%s", p)
	}
	if told {
		return
	}
	line("waits for", "%s", waitsWords(s, reason, now))
	if left := w.Until.Sub(now); left > 0 {
		line("until", "%s, in %s", timeline.Stamp(w.Until), left.Round(time.Second))
	} else if !w.Until.IsZero() {
		line("until", "%s, now", timeline.Stamp(w.Until))
	}
	if w.For == control.ForLimit {
		line("by", "%s", timeline.Limit(w.Scope, w.Rule, 0))
		line("see", "pushpace timeline --app %s %s, for the user's limits and who is ahead", quoted(s.App), quoted(s.User))
	}
}

func waitsWords(s *control.Status, reason string, now time.Time) string {
	since := ""
	if !s.Waits.Since.IsZero() {
		since = " since " + clock(s.Waits.Since, now)
	}
	switch s.Waits.For {
	case control.ForLimit:
		return "a limit"
	case control.ForQuota:
		return "what all workers may send together" + reason
	case control.ForSchedule:
		return "the instant that its producer has set"
	case control.ForAttempt:
		return "another attempt" + reason
	case control.ForPause:
		return "the end of an operator's pause" + since + reason
	case control.ForProvider:
		if s.Waits.Platform == "" {
			return "the providers of " + quoted(s.App) + reason
		}
		return string(s.Waits.Platform) + " of " + quoted(s.App) + reason
	case control.ForLimiter:
		return "the limits' Redis, away" + since + reason
	case control.ForWorker:
		if reason == "" {
			return "a worker, which takes it next"
		}
		return "a worker" + since + reason
	case control.InHand:
		return "nothing: a worker has it in hand"
	}
	return "another visit" + reason
}

// clock is the instant's time of day on the day of now, and its date besides on
// another.
func clock(t, now time.Time) string {
	t = t.UTC()
	if t.Format(time.DateOnly) == now.UTC().Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format("2006-01-02T15:04:05Z07:00")
}
