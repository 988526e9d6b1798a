package words

import (
	"cmp"
	"fmt"
	"time"

	"github.com/pushpace/pushpace/worker/pause"
)

// Pause says what a pause keeps back, why and until when: "fcm of shop, in trouble since
// 2026-11-24T13:28:54.000Z: 20 of 25 answers are UNAVAILABLE: FCM answered 503 UNAVAILABLE;
// next look 2026-11-24T13:29:27.000Z". A look that is due at that instant is "next look now".
func Pause(p *pause.Pause, now time.Time) Sentence {
	var s Sentence
	switch {
	case p.Platform != "" && p.App != "":
		s = Say(string(p.Platform), " of ", Printable(p.App))
	case p.Platform != "" || p.App != "":
		s = Say(cmp.Or(string(p.Platform), Printable(p.App)))
	}
	switch {
	case p.Category != "" && len(s) > 0:
		s = Say(s, ", category ", Printable(p.Category))
	case p.Category != "":
		s = Say("category ", Printable(p.Category))
	case len(s) == 0:
		s = Say("everything")
	}
	if p.Kind == pause.Trouble {
		s = Say(s, ", in trouble")
	} else {
		s = Say(s, ", paused")
	}
	if p.Kind == pause.Operator {
		s = Say(s, " by ", Printable(cmp.Or(p.By, "an operator")))
	}
	if !p.At.IsZero() {
		s = Say(s, " since ", p.At)
	}
	if share := Share(p.Failures, p.Answers, p.Reason); share != "" {
		s = Say(s, ": ", share)
	}
	if why := cmp.Or(p.Error, p.Reason); why != "" {
		s = Say(s, ": ", Printable(why))
	}
	switch {
	case p.Until.IsZero():
	case p.Kind == pause.Trouble && p.Until.After(now):
		s = Say(s, "; next look ", p.Until)
	case p.Kind == pause.Trouble:
		s = Say(s, "; next look now")
	default:
		s = Say(s, "; until ", p.Until)
	}
	return s
}

// Share says how many of a provider's answers fail: "205 of 210 answers are
// TooManyRequests"; "" where none is known.
func Share(failures, answers int, reason string) string {
	if failures == 0 || answers == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d answers are %s", failures, answers, Printable(reason))
}
