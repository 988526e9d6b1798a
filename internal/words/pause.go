package words

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/worker/pause"
)

// Pause describes a pause, its reason and end: "fcm of shop, in trouble since
// 2026-11-24T13:28:54.000Z: 20 of 25 answers fail: FCM answered 503 UNAVAILABLE; next look
// 2026-11-24T13:29:27.000Z". A retry that is due at that instant is "next look now".
func Pause(p *pause.Pause, now time.Time) Sentence { return pauseOf(p, now, false) }

// pauseOf is Pause. counted means that p.Waiting is known: if no notification waits for a trouble,
// the text says that the next push shows whether the trouble is over.
func pauseOf(p *pause.Pause, now time.Time, counted bool) Sentence {
	state, why := keeps(p, now, counted)
	return Say(subject(p), ", ", state, why)
}

// subject names the paused notifications.
func subject(p *pause.Pause) string {
	var parts []string
	switch {
	case p.Platform != "" && p.App != "":
		parts = append(parts, string(p.Platform)+" of "+Printable(p.App))
	case p.Platform != "" || p.App != "":
		parts = append(parts, cmp.Or(string(p.Platform), Printable(p.App)))
	}
	if p.Category != "" {
		parts = append(parts, "category "+Printable(p.Category))
	}
	return cmp.Or(strings.Join(parts, ", "), "everything")
}

// keeps describes the pause's kind, begin, reason and end.
func keeps(p *pause.Pause, now time.Time, counted bool) (state string, why Sentence) {
	switch p.Kind {
	case pause.Trouble:
		state = "in trouble"
	case pause.Operator:
		state = "paused by " + Printable(cmp.Or(p.By, "an operator"))
	default:
		state = "paused"
	}
	if !p.At.IsZero() {
		why = Say(why, " since ", p.At)
	}
	if p.Failures > 0 && p.Answers > 0 {
		why = Say(why, fmt.Sprintf(": %d of %d answers fail", p.Failures, p.Answers))
	}
	if because := Because(p); because != "" {
		why = Say(why, ": ", because)
	}
	switch {
	case p.Until.IsZero():
	case p.Kind == pause.Trouble && p.Until.After(now):
		why = Say(why, "; next look ", p.Until)
	case counted && idle(p, now):
		why = Say(why, "; nothing waits for it, and the next push shows whether it works")
	case p.Kind == pause.Trouble:
		why = Say(why, "; next look now")
	default:
		why = Say(why, "; until ", p.Until)
	}
	return state, why
}

// idle reports whether the pause is a trouble that no push probes, because nothing waits for it.
func idle(p *pause.Pause, now time.Time) bool {
	return p.Kind == pause.Trouble && p.Waiting == 0 && !p.Until.IsZero() && !p.Until.After(now)
}

// PauseTone returns the pause's tone. counted means that p.Waiting is known: trouble for which
// nothing waits may be over.
func PauseTone(p *pause.Pause, now time.Time, counted bool) Tone {
	if p.Kind == pause.Operator || counted && idle(p, now) {
		return Warns
	}
	return ReasonTone(providers.Reason(p.Reason))
}

// Because returns the reason of a pause: the provider's word and its last answer. It omits the word
// if the answer contains it.
func Because(p *pause.Pause) string {
	if p.Reason == "" || strings.Contains(p.Error, p.Reason) {
		return Printable(p.Error)
	}
	if p.Error == "" {
		return Printable(p.Reason)
	}
	return Printable(p.Reason) + ": " + Printable(p.Error)
}

// SayPauses describes the number of pauses of each kind.
func SayPauses(all []pause.Pause) string {
	count := map[pause.Kind]int{}
	for i := range all {
		count[all[i].Kind]++
	}
	var parts []string
	for _, part := range []struct {
		kind         pause.Kind
		one, several string
	}{{pause.Operator, "pause by an operator", "pauses by operators"}, {pause.Provider, "pause by a provider", "pauses by providers"}, {pause.Trouble, "provider in trouble", "providers in trouble"}} {
		if n := count[part.kind]; n > 0 {
			parts = append(parts, Counted(n, part.one, part.several))
		}
	}
	if len(parts) == 0 {
		return "Nothing is paused."
	}
	return strings.Join(parts, ", ") + "."
}
