package throttle

import (
	"maps"
	"sync/atomic"
)

// Limits are the policies in force: a general one, and those of categories. They
// may change while they are in use. Safe for concurrent use.
type Limits struct {
	base atomic.Pointer[base]
}

// base is what holds for every user. It never changes: another one takes its place.
type base struct {
	general    Policy
	categories map[string]Policy
	scopes     map[string][]Scope // of the categories with a policy
	otherwise  []Scope
}

// NewLimits returns limits of these policies.
func NewLimits(general Policy, categories map[string]Policy) *Limits {
	l := new(Limits)
	l.SetBase(general, categories)
	return l
}

// SetBase has these policies take the place of those before.
func (l *Limits) SetBase(general Policy, categories map[string]Policy) {
	l.base.Store(newBase(general, maps.Clone(categories)))
}

func newBase(general Policy, categories map[string]Policy) *base {
	b := &base{general: general, categories: categories, scopes: make(map[string][]Scope, len(categories))}
	b.otherwise = resolve(general, "", Policy{})
	for name, own := range categories {
		b.scopes[name] = resolve(general, name, own)
	}
	return b
}

// resolve answers the scopes of a notification, by its user's general policy and
// its category's own.
func resolve(general Policy, category string, own Policy) []Scope {
	if own.Exempt {
		return nil
	}
	var scopes []Scope
	if !general.Unlimited() {
		scopes = append(scopes, Scope{General, general})
	}
	if category != "" && !own.Unlimited() {
		scopes = append(scopes, Scope{category, own})
	}
	return scopes
}

// Scopes answers what limits a notification of that user and category, for
// Request.Scopes: the general policy and the category's own, where there are
// any. It is empty for an exempt category. The caller must not change it.
func (l *Limits) Scopes(user, category string) []Scope {
	b := l.base.Load()
	if scopes, ok := b.scopes[category]; ok {
		return scopes
	}
	return b.otherwise
}
