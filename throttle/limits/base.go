package limits

import "github.com/pushpace/pushpace/throttle"

// base holds the policies for all users. It is immutable: a change replaces it.
type base struct {
	general    throttle.Policy
	configured map[string]throttle.Policy // by category
	overrides  map[Level]*Override        // without a user
	ends       int64                      // earliest end, in Unix ms; 0 for never

	allApps *everyone
	apps    map[string]*everyone // of apps with overrides
}

// An everyone holds the scopes of those users of an app who have no overrides.
type everyone struct {
	scopes   map[string][]throttle.Scope // of categories with a policy
	defaults []throttle.Scope            // of other categories
}

func newBase(general throttle.Policy, configured map[string]throttle.Policy, overrides map[Level]*Override, now int64) *base {
	b := &base{general: general, configured: configured, overrides: make(map[Level]*Override, len(overrides)), apps: map[string]*everyone{}}
	for level, o := range overrides {
		if !o.ended(now) {
			b.overrides[level] = o
			b.ends = firstEnd(b.ends, o)
			b.apps[level.App] = nil
		}
	}
	delete(b.apps, "")
	for app := range b.apps {
		b.apps[app] = b.everyone(app)
	}
	b.allApps = b.everyone("")
	return b
}

// everyone computes the scopes of the app.
func (b *base) everyone(app string) *everyone {
	e := &everyone{scopes: make(map[string][]throttle.Scope, len(b.configured)), defaults: b.resolve(Level{App: app}, nil)}
	for name := range b.configured {
		e.scopes[name] = b.resolve(Level{App: app, Category: name}, nil)
	}
	for of := range b.overrides {
		if of.Category != "" && (of.App == app || of.App == "") {
			e.scopes[of.Category] = b.resolve(Level{App: app, Category: of.Category}, nil)
		}
	}
	return e
}

// in returns the scopes of the app.
func (b *base) in(app string) *everyone {
	if e := b.apps[app]; e != nil {
		return e
	}
	return b.allApps
}

// firstEnd returns the earlier of end and the override's end; 0 means that neither is set.
func firstEnd(end int64, o *Override) int64 {
	if until := o.Until.UnixMilli(); !o.Until.IsZero() && (end == 0 || until < end) {
		return until
	}
	return end
}

// inForce returns the policy in force at the level: the general one, or a category's own. Overrides
// in an earlier map of there precede those in later maps and in the base; a nil override hides them.
func (b *base) inForce(at Level, there ...map[Level]*Override) EffectivePolicy {
	there = append(there, b.overrides)
	for _, level := range at.precedence() {
		for _, overrides := range there {
			o, known := overrides[level]
			if o != nil {
				return EffectivePolicy{b.withNight(o.Policy), level.source(), o.Until}
			}
			if known {
				break
			}
		}
	}
	configured := b.general
	if at.Category != "" {
		configured = b.configured[at.Category]
	}
	return EffectivePolicy{Policy: b.withNight(configured), Source: FromConfiguration}
}

// withNight returns the policy with the common zone and spread.
func (b *base) withNight(p throttle.Policy) throttle.Policy {
	p.Night = b.general.Night
	return p
}

// resolve returns the scopes at the level with the user's overrides. Quiet hours alone make a
// scope, and so does a category's policy that turns quiet hours off: the limiter needs both.
func (b *base) resolve(at Level, users map[Level]*Override) []throttle.Scope {
	general, own := b.inForce(Level{App: at.App, User: at.User}, users).Policy, throttle.Policy{}
	if at.Category != "" {
		own = b.inForce(at, users).Policy
	}
	if own.Exempt {
		return nil
	}
	var scopes []throttle.Scope
	if !general.Unlimited() {
		scopes = append(scopes, throttle.Scope{Name: throttle.General, Policy: general})
	}
	if own.IsSet() {
		scopes = append(scopes, throttle.Scope{Name: at.Category, Policy: own})
	}
	return scopes
}

// current returns the base without ended overrides.
func (l *Policies) current() *base {
	b := l.base.Load()
	if b.ends == 0 || l.now() < b.ends {
		return b
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renew(l.base.Load().overrides)
}

// renew replaces the overrides of the base. The caller holds l.mu.
func (l *Policies) renew(overrides map[Level]*Override) *base {
	b := l.base.Load()
	b = newBase(b.general, b.configured, overrides, l.now())
	l.base.Store(b)
	return b
}
