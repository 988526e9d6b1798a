package throttle

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Limits are the policies in force: those of the configuration, and above them
// the overrides that a Follow or Refresh brings. They may change while they are in
// use. Safe for concurrent use; what reads them takes no lock.
type Limits struct {
	base  atomic.Pointer[base]
	users [userShards]atomic.Pointer[map[string]*personal] // by user; the maps never change
	seed  maphash.Seed
	began time.Time    // of this process's clock, of which only the progress counts
	clock atomic.Int64 // what Redis's clock said then, in µs

	unknown atomic.Pointer[UnknownCategory]

	mu         sync.Mutex // of who changes what follows, base and users
	general    Policy
	configured map[string]Policy
	categories map[string]*Override // the overrides of categories
	named      map[string]bool      // unknown categories that were told of

	following sync.Mutex
	known     string // the last entry of the overrides' log that is in force; "" before the first
}

// userShards is among how many maps the users with overrides are spread. A
// change copies one of them: 100 of 100,000 users.
const userShards = 1024

// NewLimits returns limits of these policies.
func NewLimits(general Policy, categories map[string]Policy) *Limits {
	l := &Limits{seed: maphash.MakeSeed(), began: time.Now(), categories: map[string]*Override{}}
	l.clock.Store(l.began.UnixMicro())
	l.SetBase(general, categories)
	return l
}

// SetBase has these policies take the place of the configured ones. The
// overrides above them stay.
func (l *Limits) SetBase(general Policy, categories map[string]Policy) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.general, l.configured = general, maps.Clone(categories)
	l.renew()
}

// Base answers the configured policies. The caller must not change the map.
func (l *Limits) Base() (general Policy, categories map[string]Policy) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.general, l.configured
}

// Scopes answers what limits a notification of that user and category, for
// Request.Scopes: the general policy, which is the user's override or the default,
// and the category's, which is the override of the user and category, or of the
// category, or the configured one. It is empty for an exempt category. The caller
// must not change it.
func (l *Limits) Scopes(user, category string) []Scope {
	b := l.current()
	if p := l.personal(user); p != nil {
		return p.scopes(b, category)
	}
	if scopes, ok := b.scopes[category]; ok {
		return scopes
	}
	return b.otherwise
}

// A Source is where a policy in force is from.
type Source string

// The sources.
const (
	FromConfiguration Source = "configuration"
	FromUser          Source = "user"
	FromCategory      Source = "category"
	FromUserCategory  Source = "user and category"
)

// A Ruling is a policy in force and where it is from. The zero Policy limits
// nothing.
type Ruling struct {
	Policy Policy
	Source Source
	Until  time.Time // when the override that it is from ends; zero for never
}

// InForce answers the general policy in force for the user ("" for one without
// overrides), and the category's.
func (l *Limits) InForce(user, category string) (general, own Ruling) {
	b := l.current()
	general = Ruling{b.general, FromConfiguration, time.Time{}}
	own = Ruling{b.categories[category], FromConfiguration, time.Time{}}
	l.mu.Lock()
	if o := l.categories[category]; o != nil && !o.ended(l.now()) {
		own = Ruling{o.Policy, FromCategory, o.Until}
	}
	l.mu.Unlock()
	p := l.personal(user)
	if p == nil {
		return general, own
	}
	if o := p.general; o != nil {
		general = Ruling{o.Policy, FromUser, o.Until}
	}
	if o := p.categories[category]; o != nil {
		own = Ruling{o.Policy, FromUserCategory, o.Until}
	}
	return general, own
}

// Categories answers the categories that have a policy of their own for the user.
func (l *Limits) Categories(user string) []string {
	names := map[string]bool{}
	for name := range l.current().categories {
		names[name] = true
	}
	if p := l.personal(user); p != nil {
		for name := range p.categories {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Now is the clock of the overrides' Redis, as learned on the way; before the
// first Refresh, this machine's. It does not step with this machine's.
func (l *Limits) Now() time.Time { return time.UnixMilli(l.now()) }

// now is Redis's clock in Unix ms.
func (l *Limits) now() int64 { return (l.clock.Load() + time.Since(l.began).Microseconds()) / 1000 }

// observe learns from an answer of Redis what its clock said at that instant.
func (l *Limits) observe(clock int64, at time.Time) {
	l.clock.Store(clock*1000 - at.Sub(l.began).Microseconds())
}

// base is what holds for every user. It never changes: another one takes its place.
type base struct {
	general    Policy
	categories map[string]Policy  // in force
	scopes     map[string][]Scope // of these
	otherwise  []Scope
	configured map[string]Policy
	ends       int64 // when the first of the overrides in it ends, in Unix ms; 0 for never
}

func newBase(general Policy, configured map[string]Policy, overrides map[string]*Override, now int64) *base {
	b := &base{general: general, configured: configured, categories: make(map[string]Policy, len(configured)+len(overrides))}
	maps.Copy(b.categories, configured)
	for name, o := range overrides {
		if !o.ended(now) {
			b.categories[name] = o.Policy
			b.ends = firstEnd(b.ends, o)
		}
	}
	b.otherwise = resolve(general, "", Policy{})
	b.scopes = make(map[string][]Scope, len(b.categories))
	for name, own := range b.categories {
		b.scopes[name] = resolve(general, name, own)
	}
	return b
}

// firstEnd is the earlier of an end and the override's, 0 for none.
func firstEnd(end int64, o *Override) int64 {
	if o.Until.IsZero() {
		return end
	}
	if end == 0 {
		return o.Until.UnixMilli()
	}
	return min(end, o.Until.UnixMilli())
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

// current answers what holds for every user now.
func (l *Limits) current() *base {
	b := l.base.Load()
	if b.ends == 0 || l.now() < b.ends {
		return b
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renew()
}

// renew has what holds for every user agree with the overrides.
func (l *Limits) renew() *base {
	b := newBase(l.general, l.configured, l.categories, l.now())
	l.base.Store(b)
	return b
}

func (l *Limits) shard(user string) *atomic.Pointer[map[string]*personal] {
	return &l.users[maphash.String(l.seed, user)%userShards]
}

// personal answers what the user has of its own now, or nil.
func (l *Limits) personal(user string) *personal {
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
	users := maps.Clone(*shard.Load())
	if p = users[user].at(l.now()); p == nil {
		delete(users, user)
	} else {
		users[user] = p
	}
	shard.Store(&users)
	return p
}

// personal is what one user has of its own. But for what it remembers, it never
// changes.
type personal struct {
	general    *Override
	categories map[string]*Override
	ends       int64 // when the first of them ends, in Unix ms; 0 for never
	remembered atomic.Pointer[personalScopes]
}

// personalScopes are a user's scopes, over what holds for every user, by category;
// those of categories without limits under "".
type personalScopes struct {
	over *base
	by   map[string][]Scope
}

// scopes answers the user's scopes. They are made once for each category that
// has limits.
func (p *personal) scopes(b *base, category string) []Scope {
	override := p.categories[category]
	own, named := b.categories[category]
	if override != nil {
		own = override.Policy
	} else if !named {
		category = ""
	}
	known := p.remembered.Load()
	if known == nil || known.over != b {
		known = &personalScopes{over: b}
	}
	if scopes, ok := known.by[category]; ok {
		return scopes
	}
	general := b.general
	if p.general != nil {
		general = p.general.Policy
	}
	next := &personalScopes{b, maps.Clone(known.by)}
	if next.by == nil {
		next.by = map[string][]Scope{}
	}
	next.by[category] = resolve(general, category, own)
	p.remembered.Store(next)
	return next.by[category]
}

// at is what is left of p at that instant; nil when nothing is, or p is nil.
func (p *personal) at(now int64) *personal {
	if p == nil {
		return nil
	}
	var left *personal
	for o := range p.all {
		if !o.ended(now) {
			left = left.with(o)
		}
	}
	return left
}

func (p *personal) all(yield func(*Override) bool) {
	if p.general != nil && !yield(p.general) {
		return
	}
	for _, o := range p.categories {
		if !yield(o) {
			return
		}
	}
}

// with answers p, which may be nil, and the override with it.
func (p *personal) with(o *Override) *personal {
	next := &personal{}
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

// without answers p without its override of that category; nil for nothing left.
func (p *personal) without(category string) *personal {
	var left *personal
	if p != nil {
		for o := range p.all {
			if o.Category != category {
				left = left.with(o)
			}
		}
	}
	return left
}

// apply puts the changes in force, in their order.
func (l *Limits) apply(changes []Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	general := false
	for _, c := range changes {
		if c.User != "" {
			l.applyTo(c)
			continue
		}
		general = true
		if c.To == nil {
			delete(l.categories, c.Category)
		} else {
			l.categories[c.Category] = c.To
		}
	}
	if general {
		l.renew()
	}
}

func (l *Limits) applyTo(c Change) {
	shard := l.shard(c.User)
	users := map[string]*personal{}
	if now := shard.Load(); now != nil {
		users = maps.Clone(*now)
	}
	p := users[c.User]
	if c.To == nil {
		p = p.without(c.Category)
	} else {
		p = p.with(c.To)
	}
	if p == nil {
		delete(users, c.User)
	} else {
		users[c.User] = p
	}
	shard.Store(&users)
}

// replace puts these overrides in the place of all, and answers what has
// changed by it. A nil one is none.
func (l *Limits) replace(all map[[2]string]*Override) []Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	changes := l.differences(all)
	l.categories = map[string]*Override{}
	var shards [userShards]map[string]*personal
	for level, o := range all {
		switch {
		case o == nil:
		case level[0] == "":
			l.categories[o.Category] = o
		default:
			i := maphash.String(l.seed, o.User) % userShards
			if shards[i] == nil {
				shards[i] = map[string]*personal{}
			}
			shards[i][o.User] = shards[i][o.User].with(o)
		}
	}
	for i := range shards {
		if shards[i] == nil {
			l.users[i].Store(nil)
		} else {
			l.users[i].Store(&shards[i])
		}
	}
	l.renew()
	return changes
}

// differences answers what has to change to get to these overrides.
func (l *Limits) differences(all map[[2]string]*Override) []Change {
	var changes []Change
	stands := map[[2]string]*Override{}
	for _, o := range l.categories {
		stands[o.level()] = o
	}
	for i := range l.users {
		if users := l.users[i].Load(); users != nil {
			for _, p := range *users {
				for o := range p.all {
					stands[o.level()] = o
				}
			}
		}
	}
	for level, from := range stands {
		if all[level] == nil {
			changes = append(changes, Change{Why: "unset", User: level[0], Category: level[1], From: from})
		}
	}
	for level, to := range all {
		if from := stands[level]; to != nil && (from == nil || !from.At.Equal(to.At)) {
			changes = append(changes, Change{Why: "set", At: to.At, By: to.By, User: level[0], Category: level[1], From: from, To: to})
		}
	}
	return changes
}
