package limits

import (
	"maps"

	"github.com/pushpace/pushpace/throttle"
)

// base is what holds for every user. It never changes: another one takes its place.
type base struct {
	general    throttle.Policy
	categories map[string]throttle.Policy  // in force
	scopes     map[string][]throttle.Scope // of these
	defaults   []throttle.Scope
	configured map[string]throttle.Policy
	ends       int64 // when the first of the overrides in it ends, in Unix ms; 0 for never
}

func newBase(general throttle.Policy, configured map[string]throttle.Policy, overrides map[string]*Override, now int64) *base {
	b := &base{general: general, configured: configured, categories: make(map[string]throttle.Policy, len(configured)+len(overrides))}
	maps.Copy(b.categories, configured)
	for name, o := range overrides {
		if !o.ended(now) {
			b.categories[name] = o.Policy
			b.ends = firstEnd(b.ends, o)
		}
	}
	b.defaults = resolve(general, "", throttle.Policy{})
	b.scopes = make(map[string][]throttle.Scope, len(b.categories))
	for name, own := range b.categories {
		b.scopes[name] = resolve(general, name, own)
	}
	return b
}

// firstEnd is the earlier of an end and the override's, 0 for none.
func firstEnd(end int64, o *Override) int64 {
	if until := o.Until.UnixMilli(); !o.Until.IsZero() && (end == 0 || until < end) {
		return until
	}
	return end
}

// resolve returns the scopes of a notification, by its user's general policy and
// its category's own.
func resolve(general throttle.Policy, category string, own throttle.Policy) []throttle.Scope {
	if own.Exempt {
		return nil
	}
	var scopes []throttle.Scope
	if !general.Unlimited() {
		scopes = append(scopes, throttle.Scope{Name: throttle.General, Policy: general})
	}
	if category != "" && !own.Unlimited() {
		scopes = append(scopes, throttle.Scope{Name: category, Policy: own})
	}
	return scopes
}

// current returns what holds for every user now.
func (l *Policies) current() *base {
	b := l.base.Load()
	if b.ends == 0 || l.now() < b.ends {
		return b
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renew()
}

// renew has what holds for every user agree with the overrides.
func (l *Policies) renew() *base {
	b := newBase(l.general, l.configured, l.categories, l.now())
	l.base.Store(b)
	return b
}
