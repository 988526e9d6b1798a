// Package words turns values into text for the command line and the console: each value has only
// one text. Begin with Overview and Waits.
package words

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
)

// NoWorker reports that no worker is alive.
const NoWorker = "No worker runs: what waits is sent when one is started"

// A Waiting describes a wait.
type Waiting struct {
	// For are endings of "waits for …": one, or one for each pause that holds the notification.
	For []Sentence
	// Keeping are the pauses that hold the notification, or some of its targets, and are not in For.
	Keeping []Sentence
	// Until is when the wait ends; zero if that is unknown, or For names it.
	Until time.Time
}

// Waits describes the wait of a notification that has not ended.
func Waits(s *inspect.Status, now time.Time) (w Waiting) {
	var pauses []Sentence
	for i := range s.Paused {
		pauses = append(pauses, Pause(&s.Paused[i], now))
	}
	switch {
	case !s.ExpiresAt.IsZero() && !s.ExpiresAt.After(now):
		w.For = []Sentence{Say("its end: it has expired, and ends at its next attempt")}
		return w
	case len(pauses) > 0 && (s.Waits.For == inspect.ForPause || s.Waits.For == inspect.ForProvider):
		w.For = pauses
		return w
	}
	w.For, w.Keeping = []Sentence{waits(s)}, pauses
	if s.Waits.For != inspect.ForQuiet {
		w.Until = s.Waits.Until
	}
	return w
}

// WaitsFor returns the cause of a listed notification's wait.
func WaitsFor(q inspect.Queued) string {
	if q.For == inspect.ForLimit && q.Scope != "" {
		return Limit(q.Scope, q.Rule, 0)
	}
	return Cause(q.For)
}

// Waitings describes how many notifications wait; more means that there may be more than n.
func Waitings(n int, more bool) string {
	switch {
	case more && n == 0:
		return "it is not known how many notifications wait"
	case more:
		return "at least " + Counted(n, "notification waits", "notifications wait")
	case n == 0:
		return "no notification waits"
	}
	return Counted(n, "notification waits", "notifications wait")
}

func waits(s *inspect.Status) Sentence {
	var since, reason Sentence
	if !s.Waits.Since.IsZero() {
		since = Say(" since ", s.Waits.Since)
	}
	if s.Waits.Reason != "" {
		reason = Say(": ", Printable(s.Waits.Reason))
	}
	what := Cause(s.Waits.For)
	switch s.Waits.For {
	case inspect.ForLimit:
		if s.Waits.Scope != "" {
			return Say(what, ": ", Limit(s.Waits.Scope, s.Waits.Rule, 0))
		}
	case inspect.ForProvider:
		what = "the providers of " + Printable(s.App)
		if s.Waits.Platform != "" {
			what = string(s.Waits.Platform) + " of " + Printable(s.App)
		}
		return Say(what, reason)
	case inspect.ForQuiet:
		return quietHours(s.Waits)
	case inspect.ForPause, inspect.ForLimiter:
		return Say(what, since, reason)
	case inspect.ForWorker:
		if reason != nil {
			return Say("a worker", since, reason)
		}
		return Say(what)
	case inspect.ForQuota, inspect.ForAttempt, inspect.ForTimeline, inspect.ForRecovery:
		return Say(what, reason)
	}
	return Say(what) // the cause or the limit suffices
}

// quietHours describes the end of quiet hours, also by the user's clock, and the wait after them.
func quietHours(w *inspect.Waits) Sentence {
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

// Ended describes how a notification has ended.
func Ended(r *store.Record) string {
	if r.State == push.Digested {
		return "The push of " + r.Into + " tells of it"
	}
	return cmp.Or(ends[r.State], "It has ended: "+string(r.State))
}

var ends = map[push.State]string{
	push.Delivered:     "It was delivered",
	push.Undeliverable: "It could not be delivered: the token of each of its targets is dead",
	push.Rejected:      "It was rejected, and can never be taken as it is",
	push.Exhausted:     "It was given up: its attempts or its time are used up",
	push.Expired:       "It expired before it could be sent",
	push.Cancelled:     "It was cancelled",
	push.Superseded:    "A newer one with the same collapse key took its place",
	push.Muted:         "Its app, user, category or a combination of these is muted",
}

// Target describes a target, its outcome, and the provider's ID of the push.
func Target(o store.TargetOutcome) string {
	said := Outcome(o)
	if o.TokenEnd != "" {
		said = "…" + o.TokenEnd + " " + said
	}
	if o.FIDEnd != "" {
		said = "fid …" + o.FIDEnd + " " + said
	}
	if o.Platform != "" {
		said = string(o.Platform) + " " + said
	}
	if o.ProviderID != "" {
		said += " as " + o.ProviderID
	}
	return said
}

// Platforms returns the targets' platforms, each once.
func Platforms(outcomes []store.TargetOutcome) string {
	var all []string
	for _, o := range outcomes {
		if platform := string(o.Platform); platform != "" && !slices.Contains(all, platform) {
			all = append(all, platform)
		}
	}
	return strings.Join(all, ", ")
}

// OutcomeTone returns the tone of a target's outcome for a notification in that state.
func OutcomeTone(o store.TargetOutcome, s push.State) Tone {
	switch {
	case o.Kind == "rejected" || o.Kind == "misconfigured" || o.Kind == "retry" && s.Dead():
		return Wrong
	case (o.Kind == "" || o.Kind == "retry") && !s.Ended():
		return Warns
	}
	return Well
}

// Outcome describes a target's outcome.
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

// Job describes the state of a job in our words instead of asynq's.
func Job(state string) string { return cmp.Or(jobs[state], state) }

var jobs = map[string]string{"": "none", "pending": "due", "active": "in a worker", "scheduled": "for later", "retry": "put off", "put_off": "put off"}

// Cause returns a cause as the end of "waits for …".
func Cause(c inspect.Cause) string { return cmp.Or(causes[c], string(c)) }

var causes = map[inspect.Cause]string{
	inspect.ForWorker:   "a worker, which takes it next",
	inspect.InHand:      "nothing: a worker is sending it",
	inspect.ForSchedule: "the instant that its producer has set",
	inspect.ForLimit:    "a limit of its user",
	inspect.ForQuiet:    "its user's quiet hours",
	inspect.ForQuota:    "a quota of all workers, or the limit of its device",
	inspect.ForAttempt:  "another attempt, after one that failed",
	inspect.ForPause:    "the end of an operator's pause",
	inspect.ForProvider: "its provider",
	inspect.ForLimiter:  "the limits' Redis, away",
	inspect.ForTimeline: "its user's timeline, which cannot be read or written",
	inspect.ForRedis:    "Redis, which refuses to write",
	inspect.ForMachine:  "a worker's machine, which is too busy to send on time",
	inspect.ForRecovery: "its recovery from a crash, or from an outage of Redis",
}
