package limits

import (
	"maps"
	"slices"
)

// An UnknownCategory selects the treatment of a notification whose category is not configured:
// the category has no limits of its own, and its name may be mistyped.
type UnknownCategory string

// The choices.
const (
	AllowUnknown  UnknownCategory = "allow"
	WarnUnknown   UnknownCategory = "warn"
	RefuseUnknown UnknownCategory = "refuse"
)

// maxUnknownLogged bounds the unknown categories that are remembered, to log each once: a producer
// that invents a name for each push must not fill the memory.
const maxUnknownLogged = 1000

// SetUnknown sets the treatment of unknown categories. The default is AllowUnknown.
func (l *Policies) SetUnknown(u UnknownCategory) { l.unknown.Store(&u) }

// Unknown returns the treatment of the category; AllowUnknown if it is configured or empty.
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

// FirstUnknown reports whether this is its first call with the category. After maxUnknownLogged
// categories it always returns false.
func (l *Policies) FirstUnknown(category string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.named[category] || len(l.named) >= maxUnknownLogged {
		return false
	}
	l.named[category] = true
	return true
}

// Configured returns the names of the configuration's categories.
func (l *Policies) Configured() []string {
	return slices.Sorted(maps.Keys(l.base.Load().configured))
}
