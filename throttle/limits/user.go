package limits

import (
	"hash/maphash"
	"maps"
	"sync/atomic"

	"github.com/pushpace/pushpace/throttle"
)

// userPolicy is what one user has of its own. But for what it remembers, it never
// changes.
type userPolicy struct {
	general    *Override
	categories map[string]*Override
	ends       int64 // when the first of them ends, in Unix ms; 0 for never
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
	override := p.categories[category]
	own, named := b.categories[category]
	if override != nil {
		own = override.Policy
	} else if !named {
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
	if p.general != nil {
		general = p.general.Policy
	}
	next := &userScopes{b, maps.Clone(known.by)}
	if next.by == nil {
		next.by = map[string][]throttle.Scope{}
	}
	next.by[category] = resolve(general, category, own)
	p.remembered.Store(next)
	return next.by[category]
}

// at is what is left of p at that instant; nil when nothing is, or p is nil.
func (p *userPolicy) at(now int64) *userPolicy {
	if p == nil {
		return nil
	}
	var left *userPolicy
	for o := range p.all {
		if !o.ended(now) {
			left = left.with(o)
		}
	}
	return left
}

func (p *userPolicy) all(yield func(*Override) bool) {
	if p.general != nil && !yield(p.general) {
		return
	}
	for _, o := range p.categories {
		if !yield(o) {
			return
		}
	}
}

// with returns p, which may be nil, and the override with it.
func (p *userPolicy) with(o *Override) *userPolicy {
	next := &userPolicy{}
	if p != nil {
		next.general, next.categories = p.general, maps.Clone(p.categories)
	}
	if o.Category == "" {
		next.general = o
	} else {
		if next.categories == nil {
			next.categories = map[string]*Override{}
		}
		next.categories[o.Category] = o
	}
	for o := range next.all {
		next.ends = firstEnd(next.ends, o)
	}
	return next
}

// without returns p without its override of that category; nil for nothing left.
func (p *userPolicy) without(category string) *userPolicy {
	var left *userPolicy
	if p != nil {
		for o := range p.all {
			if o.Category != category {
				left = left.with(o)
			}
		}
	}
	return left
}

func (l *Policies) shard(user string) *atomic.Pointer[map[string]*userPolicy] {
	return &l.users[maphash.String(l.seed, user)%userShards]
}

// user returns what the user has of its own now, or nil.
func (l *Policies) user(user string) *userPolicy {
	of := l.shard(user).Load()
	if of == nil {
		return nil
	}
	p := (*of)[user]
	if p == nil || p.ends == 0 || l.now() < p.ends {
		return p
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	shard := l.shard(user)
	now := shard.Load()
	if now == nil { // all were replaced meanwhile
		return nil
	}
	users := maps.Clone(*now)
	if p = users[user].at(l.now()); p == nil {
		delete(users, user)
	} else {
		users[user] = p
	}
	shard.Store(&users)
	return p
}
