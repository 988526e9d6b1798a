// Package words has what a person reads of values: one text for each, for the command line
// and the console.
package words

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/control"
)

// NoWorker says that none is alive.
const NoWorker = "No worker runs: what waits is sent when one is started"

// Waits says what a notification waits for, as the end of "waits for …"; there may be
// several, one for each pause that keeps it.
func Waits(s *control.Status, now time.Time) []Sentence {
	if w := s.Waits; len(s.Paused) == 0 || w.For != control.ForPause && w.For != control.ForProvider {
		return []Sentence{waits(s)}
	}
	return Pauses(s, now)
}

// Pauses says which pauses keep it, or some of its targets.
func Pauses(s *control.Status, now time.Time) []Sentence {
	var all []Sentence
	for i := range s.Paused {
		all = append(all, Pause(&s.Paused[i], now))
	}
	return all
}

func waits(s *control.Status) Sentence {
	var since, reason Sentence
	if !s.Waits.Since.IsZero() {
		since = Say(" since ", s.Waits.Since)
	}
	if s.Waits.Reason != "" {
		reason = Say(": ", Printable(s.Waits.Reason))
	}
	what := Cause(s.Waits.For)
	switch s.Waits.For {
	case control.ForProvider:
		what = "the providers of " + Printable(s.App)
		if s.Waits.Platform != "" {
			what = string(s.Waits.Platform) + " of " + Printable(s.App)
		}
		return Say(what, reason)
	case control.ForQuiet:
		return quietHours(s.Waits)
	case control.ForPause, control.ForLimiter:
		return Say(what, since, reason)
	case control.ForWorker:
		if reason != nil {
			return Say("a worker", since, reason)
		}
		return Say(what)
	case control.ForQuota, control.ForAttempt, control.ForTimeline, control.ForRecovery:
		return Say(what, reason)
	}
	return Say(what) // which says it all, or the limit does
}

// quietHours says when they end, by the user's clock too, and what else is waited for then.
func quietHours(w *control.Waits) Sentence {
	if w.QuietUntil.IsZero() {
		return Say(Cause(w.For))
	}
	until := Say(w.QuietUntil)
	if _, offset := w.QuietUntil.Zone(); offset != 0 {
		until = Say(w.QuietUntil.Format(time.TimeOnly), " by the user's clock (", w.QuietUntil, ")")
	}
	if w.Reason == "" || w.Rule == throttle.QuietRule {
		return Say("quiet hours until ", until)
	}
	return Say("quiet hours until ", until, ", then for ", Printable(w.Reason), " ", End(w.Until))
}

// Target says which target it is, what became of it, and what the provider calls it.
func Target(o store.TargetOutcome) string {
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
func Outcome(o store.TargetOutcome) string {
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

// Cause says what a notification waits for, as the end of "waits for …".
func Cause(c control.Cause) string { return cmp.Or(causes[c], string(c)) }

var causes = map[control.Cause]string{
	control.ForWorker:   "a worker, which takes it next",
	control.InHand:      "nothing: a worker has it in hand",
	control.ForSchedule: "the instant that its producer has set",
	control.ForLimit:    "a limit of its user",
	control.ForQuiet:    "its user's quiet hours",
	control.ForQuota:    "what all workers may send together, or a device may get",
	control.ForAttempt:  "another attempt, after one that failed",
	control.ForPause:    "the end of an operator's pause",
	control.ForProvider: "its provider, which is paused, busy or in trouble",
	control.ForLimiter:  "the limits' Redis, away",
	control.ForTimeline: "its user's timeline, which cannot be read or written",
	control.ForRedis:    "Redis, which refuses to write",
	control.ForMachine:  "a worker's machine, which is too busy to send on time",
	control.ForRecovery: "its recovery from a crash, or from an outage of Redis",
}
