// Package zone finds the instants at which a time zone's clocks show a local time, also around
// clock changes. Start with Load.
package zone

import (
	"errors"
	"path"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // the zones do not depend on the system
)

// maxName bounds a zone's name, in bytes.
const maxName = 64

// zones caches the zones by name. There are about 600.
var zones sync.Map

// Load returns the zone of that IANA name, such as Europe/Berlin.
func Load(name string) (*time.Location, error) {
	if known, ok := zones.Load(name); ok {
		return known.(*time.Location), nil
	}
	if !isPlain(name) {
		return nil, ErrUnknown
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, ErrUnknown
	}
	zones.Store(name, zone)
	return zone, nil
}

// isPlain reports whether the name is a zone's usual spelling: any other spelling would be cached
// again. It excludes zones that differ between systems.
func isPlain(name string) bool {
	switch first, _, _ := strings.Cut(name, "/"); first {
	case "", ".", "..", "Local", "localtime", "posixrules", "Factory", "posix", "right":
		return false
	}
	return len(name) <= maxName && path.Clean(name) == name
}

// ErrUnknown means that no zone has the name.
var ErrUnknown = errors.New("is no IANA time zone such as Europe/Berlin")

// A Local is a date and time as a clock shows it, in seconds since 1970-01-01T00:00.
type Local int64

// At returns the local time of that date, the given minutes after midnight. A day may exceed its
// month, and minutes may exceed their day.
func At(year int, month time.Month, day, minutes int) Local {
	return Shown(time.Date(year, month, day, 0, minutes, 0, 0, time.UTC))
}

// Shown returns the local time of an instant in its own zone, to the second.
func Shown(t time.Time) Local {
	_, offset := t.Zone()
	return Local(t.Unix() + int64(offset))
}

// First returns the first instant, in Unix s, at which the zone's clocks show l or a later time: the
// first of two instants if l occurs twice, the instant of the jump if l is skipped.
func (l Local) First(zone *time.Location) int64 {
	first := int64(l) + margin
	l.segments(zone, func(from, upto, offset int64) {
		if at := max(from, int64(l)-offset); at < upto {
			first = min(first, at)
		}
	})
	return first
}

// Past returns the first instant, in Unix s, after which the zone's clocks show no time before l:
// the second of two instants if l occurs twice, the instant of the jump if l is skipped.
func (l Local) Past(zone *time.Location) int64 {
	past := int64(l) - margin
	l.segments(zone, func(from, upto, offset int64) {
		if at := int64(l) - offset; from < at {
			past = max(past, min(upto, at))
		}
	})
	return past
}

// margin exceeds every zone's offset from UTC and every jump, in s.
const margin = 28 * 60 * 60

// segments calls f for each stretch of constant offset around the local time: from and upto are Unix
// times in s, and the offset is in s.
func (l Local) segments(zone *time.Location, f func(from, upto, offset int64)) {
	for at, end := int64(l)-margin, int64(l)+margin; at < end; {
		t := time.Unix(at, 0).In(zone)
		_, offset := t.Zone()
		upto := end
		if _, over := t.ZoneBounds(); over.After(t) {
			upto = min(upto, over.Unix())
		} else if !over.IsZero() { // Go treats a leap year's last day as beyond its end
			upto = min(upto, at+60*60)
		}
		f(at, upto, int64(offset))
		at = upto
	}
}
