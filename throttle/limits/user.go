package limits

import (
	"maps"
	"sync/atomic"

	"github.com/pushpace/pushpace/throttle"
)

// userPolicy holds the overrides of one user. Apart from its cache, it is immutable.
type userPolicy struct {
	overrides  map[Level]*Override
	apps       map[string]bool // apps of the overrides, and ""
	ends       int64           // earliest end, in Unix ms; 0 for never
	remembered atomic.Pointer[userScopes]
}

// userScopes are a user's scopes by app and category, computed with the policies of a base. All
// apps without overrides share the key "", and so do all categories without a policy.
type userScopes struct {
	over *base
	by   map[[2]string][]throttle.Scope
}

// scopes returns the user's scopes. It computes them once for each key of userScopes.
func (p *userPolicy) scopes(b *base, at Level) []throttle.Scope {
	known := p.remembered.Load()
	if known == nil || known.over != b {
		known = &userScopes{over: b}
	}
	if scopes, ok := known.by[[2]string{at.App, at.Category}]; ok {
		return scopes
	}
	everyone := b.in(at.App)
	if everyone == b.allApps && !p.apps[at.App] {
		at.App = ""
	}
	if _, named := everyone.scopes[at.Category]; !named && p.overrides[at] == nil && p.overrides[Level{User: at.User, Category: at.Category}] == nil {
		at.Category = ""
	}
	of := [2]string{at.App, at.Category}
	if scopes, ok := known.by[of]; ok {
		return scopes
	}
	next := &userScopes{b, map[[2]string][]throttle.Scope{of: b.resolve(at, p.overrides)}}
	maps.Copy(next.by, known.by)
	p.remembered.Store(next)
	return next.by[of]
}

// user returns the user's current overrides, or nil.
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
	return l.change(user, func(overrides map[Level]*Override) {
		maps.DeleteFunc(overrides, func(_ Level, o *Override) bool { return o.ended(l.now()) })
	})
}

// change changes the user's overrides and returns the new ones. The caller holds l.mu.
func (l *Policies) change(user string, change func(map[Level]*Override)) *userPolicy {
	overrides := map[Level]*Override{}
	if known, ok := l.users.Load(user); ok {
		maps.Copy(overrides, known.(*userPolicy).overrides)
	}
	change(overrides)
	if len(overrides) == 0 {
		l.users.Delete(user)
		return nil
	}
	p := &userPolicy{overrides: overrides, apps: map[string]bool{}}
	for level, o := range overrides {
		p.ends = firstEnd(p.ends, o)
		p.apps[level.App] = true
	}
	l.users.Store(user, p)
	return p
}
