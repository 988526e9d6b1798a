package limits

import (
	"maps"
	"slices"
)

// An UnknownCategory is what becomes of a notification whose category the
// configuration does not have: it has no limits of its own, and may be mistyped.
type UnknownCategory string

// The choices.
const (
	AllowUnknown  UnknownCategory = "allow"
	WarnUnknown   UnknownCategory = "warn"
	RefuseUnknown UnknownCategory = "refuse"
)

// unknownNamed bounds the unknown categories that are logged, each once, and remembered: a
// producer that makes up a name for each push must not fill the memory.
const unknownNamed = 1000

// SetUnknown says what becomes of unknown categories; at first all are allowed.
func (l *Policies) SetUnknown(u UnknownCategory) { l.unknown.Store(&u) }

// Unknown returns what becomes of a notification of the category: AllowUnknown
// for one that the configuration has, and for none.
func (l *Policies) Unknown(category string) UnknownCategory {
	u := l.unknown.Load()
	if u == nil || *u == AllowUnknown || category == "" {
		return AllowUnknown
	}
	if _, known := l.base.Load().configured[category]; known {
		return AllowUnknown
	}
	return *u
}

// FirstUnknown reports, once for each category, that it is the first of its name;
// of so many names at most as a process may well remember.
func (l *Policies) FirstUnknown(category string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.named[category] || len(l.named) >= unknownNamed {
		return false
	}
	l.named[category] = true
	return true
}

// Configured returns the names of the configuration's categories.
func (l *Policies) Configured() []string {
	return slices.Sorted(maps.Keys(l.base.Load().configured))
}
