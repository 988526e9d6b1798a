// Package zone finds the instants at which the clocks of a time zone show a local time, also
// where they jump.
package zone

import (
	"errors"
	"path"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // a system without zones, or one that loses one, changes nothing
)

// maxName bounds a zone's name, in bytes.
const maxName = 64

// loaded are the zones that were asked for, by their names. There are about 600.
var loaded sync.Map

// Load returns the zone of that IANA name, such as Europe/Berlin.
func Load(name string) (*time.Location, error) {
	if known, ok := loaded.Load(name); ok {
		return known.(*time.Location), nil
	}
	if !plain(name) {
		return nil, ErrUnknown
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, ErrUnknown
	}
	loaded.Store(name, zone)
	return zone, nil
}

// plain reports whether that may be a zone's name: no other spelling of one, which would be
// loaded again, and no zone that differs between systems.
func plain(name string) bool {
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

// At is a clock's time of that date, minutes after its midnight; days and minutes may be
// beyond their month and day.
func At(year int, month time.Month, day, minutes int) Local {
	return Shown(time.Date(year, month, day, 0, minutes, 0, 0, time.UTC))
}

// Shown is the date and time, to the second, of an instant in its own zone.
func Shown(t time.Time) Local {
	_, offset := t.Zone()
	return Local(t.Unix() + int64(offset))
}

// First returns the first instant at which the zone's clocks show that time or a later one,
// in Unix s. Where it is shown twice that is the first time, and where it is jumped over the
// instant of the jump.
func (l Local) First(zone *time.Location) int64 {
	first := int64(l) + margin
	l.segments(zone, func(from, upto, offset int64) {
		if at := max(from, int64(l)-offset); at < upto {
			first = min(first, at)
		}
	})
	return first
}

// Past returns the instant from which on the zone's clocks show no earlier time any more, in
// Unix s. Where it is shown twice that is the second time, and where it is jumped over the
// instant of the jump.
func (l Local) Past(zone *time.Location) int64 {
	past := int64(l) - margin
	l.segments(zone, func(from, upto, offset int64) {
		if at := int64(l) - offset; from < at {
			past = max(past, min(upto, at))
		}
	})
	return past
}

// margin is more than a zone is off UTC, with what it jumps by, in s.
const margin = 28 * 60 * 60

// segments calls f with the stretches of time around the local time in which the zone has one
// offset, all in s.
func (l Local) segments(zone *time.Location, f func(from, upto, offset int64)) {
	for at, end := int64(l)-margin, int64(l)+margin; at < end; {
		t := time.Unix(at, 0).In(zone)
		_, offset := t.Zone()
		upto := end
		if _, over := t.ZoneBounds(); over.After(t) {
			upto = min(upto, over.Unix())
		} else if !over.IsZero() { // Go takes leap years' last day for behind their end
			upto = min(upto, at+60*60)
		}
		f(at, upto, int64(offset))
		at = upto
	}
}
