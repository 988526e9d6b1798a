// Package words says what the status of a notification tells, in the same words for the
// command line and the console.
package words

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/timeline"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
)

// Waits says what a notification waits for, as the end of "waits for …"; there may be
// several, one for each pause that keeps it.
func Waits(s *control.Status, now time.Time) []string {
	if w := s.Waits; len(s.Paused) == 0 || w.For != control.ForPause && w.For != control.ForProvider {
		return []string{waits(s, now)}
	}
	return Pauses(s)
}

// Pauses says which pauses keep it, or some of its targets.
func Pauses(s *control.Status) []string {
	var all []string
	for _, p := range s.Paused {
		all = append(all, p.String())
	}
	return all
}

func waits(s *control.Status, now time.Time) string {
	since, reason := "", ""
	if !s.Waits.Since.IsZero() {
		since = " since " + clock(s.Waits.Since, now)
	}
	if s.Waits.Reason != "" {
		reason = ": " + timeline.Printable(s.Waits.Reason)
	}
	app := timeline.Printable(s.App)
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
			return "the providers of " + app + reason
		}
		return string(s.Waits.Platform) + " of " + app + reason
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

// Target says which target it is, what became of it, and what the provider calls it.
func Target(o push.TargetOutcome) string {
	said := Outcome(o)
	if o.TokenEnd != "" {
		said = "…" + o.TokenEnd + " " + said
	}
	if o.Platform != "" {
		said = string(o.Platform) + " " + said
	}
	if o.ProviderID != "" {
		said += " as " + o.ProviderID
	}
	return said
}

// Outcome says what became of a target.
func Outcome(o push.TargetOutcome) string {
	said := strings.TrimSpace(cmp.Or(o.Kind, "not sent") + " " + o.Reason)
	switch {
	case !o.Ambiguous:
		return said
	case o.Kind == "":
		return "may have been sent (ambiguous)"
	case o.Kind == "delivered":
		return said + ", perhaps more than once (ambiguous)"
	}
	return said + ", may have been sent (ambiguous)"
}

// Times says how often something was.
func Times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// Job says where asynq has a job, in other words than its own.
func Job(state string) string { return cmp.Or(jobs[state], state) }

var jobs = map[string]string{"": "none", "pending": "due", "active": "in a worker's hands", "scheduled": "for later", "retry": "put off"}

// Cause says what many wait for, as the end of "for …".
func Cause(c control.Cause) string { return cmp.Or(causes[c], string(c)) }

var causes = map[control.Cause]string{
	control.ForWorker:   "a worker: it is due",
	control.InHand:      "nothing: a worker has it in hand",
	control.ForSchedule: "the instant that its producer has set",
	control.ForLimit:    "a limit of its user",
	control.ForQuota:    "what all workers may send together",
	control.ForAttempt:  "another attempt",
	control.ForPause:    "the end of an operator's pause",
	control.ForProvider: "a provider",
	control.ForLimiter:  "the limits' Redis, which is away",
	control.ForTimeline: "its user's timeline, which cannot be used",
	control.ForRedis:    "the queue's Redis, which refuses to write",
	control.ForMachine:  "its worker's machine, which is too busy",
	control.ForRecovery: "another visit, after a crash",
}
