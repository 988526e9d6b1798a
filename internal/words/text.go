package words

import (
	"fmt"
	"strconv"
	"time"
	"unicode"

	"github.com/pushpace/pushpace/throttle"
)

// Limit describes a limit. A gap has its period, if known.
func Limit(scope, rule string, period time.Duration) string {
	if rule == "gap" && period > 0 {
		rule = "gap of " + Span(period)
	}
	if rule == throttle.QuietRule {
		if scope == throttle.General {
			return "the general quiet hours"
		}
		return "the quiet hours of category " + Printable(scope)
	}
	if rule == "" {
		rule = "those ahead"
		if scope != throttle.General {
			return rule + " in category " + Printable(scope)
		}
		return rule
	}
	if scope == throttle.General {
		return "the general limit " + rule
	}
	return "the limit " + rule + " of category " + Printable(scope)
}

// Printable returns the name, quoted if it holds a character that could disturb a terminal.
func Printable(name string) string {
	for _, r := range name {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return strconv.Quote(name)
		}
	}
	return name
}

// Stamp writes an instant to the millisecond.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// Took writes how long something took; "" for an unknown time.
func Took(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return Span(d)
}

// Span writes a duration in at most two units.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	two := func(big time.Duration, a string, small time.Duration, b string) string {
		if rest := d % big / small; rest > 0 {
			return fmt.Sprintf("%d%s%d%s", d/big, a, rest, b)
		}
		return fmt.Sprintf("%d%s", d/big, a)
	}
	switch d = max(0, d); {
	case d < 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return two(time.Minute, "m", time.Second, "s")
	case d < 2*day:
		return two(time.Hour, "h", time.Minute, "m")
	}
	return two(day, "d", time.Hour, "h")
}
