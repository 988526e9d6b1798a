package words

import (
	"strings"
	"time"

	"github.com/pushpace/pushpace/throttle/limits"
)

// Level names a level: "app shop, user ada"; "" for limits.default.
func Level(l limits.Level) string {
	var parts []string
	for _, name := range []struct{ of, is string }{{"app", l.App}, {"user", l.User}, {"category", l.Category}, {"quota", l.Quota}} {
		if name.is != "" {
			parts = append(parts, name.of+" "+Quoted(name.is))
		}
	}
	return strings.Join(parts, ", ")
}

// Limits describes an override's policy, or a mute's exceptions.
func Limits(o *limits.Override) string {
	if o.Mute {
		return Muted(o.All)
	}
	return o.Policy.String()
}

// Muted describes the extent of a mute.
func Muted(all bool) string {
	if all {
		return "muted, critical and exempt ones too"
	}
	return "muted"
}

// Override describes an override's policy, and its end if there is one; "none" for nil.
func Override(o *limits.Override) Sentence {
	switch {
	case o == nil:
		return Say("none")
	case o.Until.IsZero():
		return Say(Limits(o))
	}
	return Say(Limits(o), " ", End(o.Until))
}

// End describes an end: "until 2026-12-24T20:00:00.000Z"; nil for the zero time.
func End(until time.Time) Sentence {
	if until.IsZero() {
		return nil
	}
	return Say("until ", until)
}
