package limits

import (
	"maps"
	"sync/atomic"

	"github.com/pushpace/pushpace/throttle"
)

// userPolicy is what one user has of its own. But for what it remembers, it never
// changes.
type userPolicy struct {
	overrides  map[string]*Override // by category, that of the general limits under ""
	ends       int64                // when the first of them ends, in Unix ms; 0 for never
	remembered atomic.Pointer[userScopes]
}

// userScopes are a user's scopes, over what holds for every user, by category;
// those of categories without limits under "".
type userScopes struct {
	over *base
	by   map[string][]throttle.Scope
}

// scopes returns the user's scopes. They are made once for each category that
// has limits.
func (p *userPolicy) scopes(b *base, category string) []throttle.Scope {
	own, limited := b.categories[category]
	if override := p.overrides[category]; override != nil && category != "" {
		own = override.Policy
	} else if !limited {
		category = ""
	}
	known := p.remembered.Load()
	if known == nil || known.over != b {
		known = &userScopes{over: b}
	}
	if scopes, ok := known.by[category]; ok {
		return scopes
	}
	general := b.general
	if override := p.overrides[""]; override != nil {
		general = override.Policy
	}
	next := &userScopes{b, map[string][]throttle.Scope{category: resolve(general, category, own)}}
	maps.Copy(next.by, known.by)
	p.remembered.Store(next)
	return next.by[category]
}

// user returns what the user has of its own now, or nil.
func (l *Policies) user(user string) *userPolicy {
	known, ok := l.users.Load(user)
	if !ok {
		return nil
	}
	p := known.(*userPolicy)
	if p.ends == 0 || l.now() < p.ends {
		return p
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.change(user, func(overrides map[string]*Override) {
		maps.DeleteFunc(overrides, func(_ string, o *Override) bool { return o.ended(l.now()) })
	})
}

// change changes the user's overrides, and returns what the user has of its own then.
// The caller holds l.mu.
func (l *Policies) change(user string, change func(map[string]*Override)) *userPolicy {
	overrides := map[string]*Override{}
	if known, ok := l.users.Load(user); ok {
		maps.Copy(overrides, known.(*userPolicy).overrides)
	}
	change(overrides)
	if len(overrides) == 0 {
		l.users.Delete(user)
		return nil
	}
	p := &userPolicy{overrides: overrides}
	for _, o := range overrides {
		p.ends = firstEnd(p.ends, o)
	}
	l.users.Store(user, p)
	return p
}
