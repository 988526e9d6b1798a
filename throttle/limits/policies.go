// Package limits holds the policies in force: those of the configuration, and
// above them the overrides that operators set at run time.
//
// Policies answer, for each notification, which scopes limit it (Scopes), and for
// operators which policy is effective and where it is from (InForce). The readers
// are the handlers, once a notification: they take no lock and allocate nothing.
// What they read never changes; a change makes another copy and swaps a pointer.
//
// Overrides keep the operators' settings in Redis, together with the log of who
// changed what. Every process follows the log (Follow) and applies what is new to
// its own Policies, so that a change binds everywhere within a second.
//
// The general limits and a category's own both apply. Of each the first of these counts
// that there is; --app and so on are what set it:
//
//	general limits   a category's own
//	--app --user     --app --user --category
//	--user           --user --category
//	--app            --app --category
//	                 --category
//	limits.default   limits.categories
//
// So a user's own come before everyone's, and of each those in the app before those in
// all apps. What names an app binds nobody in another.
//
// --quota overrides the rate of what a meter counts, which is no user's (Quota). A mute of
// any of these levels stands beside all that (Muted).
//
// Invariants:
//   - An override replaces the whole policy at its level.
//   - An override and its entry in the log are one step; versions have no gaps, so
//     that a follower knows when it has missed one, and loads all of them anew.
//   - An override ends by Redis's clock, also while Redis is away.
//   - While Redis is away the policies stay as they are.
package limits

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pushpace/pushpace/internal/base/zone"
	"github.com/pushpace/pushpace/throttle"
)

// Policies are those in force: the configured ones, and above them the overrides
// that a Follow or Refresh brings. They may change while they are in use. Safe for
// concurrent use; what reads them takes no lock.
type Policies struct {
	base  atomic.Pointer[base]
	users sync.Map // by user, the *userPolicy of each, which never changes
	mutes atomic.Pointer[map[Level]*Override]
	began time.Time    // of this process's clock, of which only the progress counts
	clock atomic.Int64 // what Redis's clock said then, in µs

	unknown atomic.Pointer[UnknownCategory]

	mu    sync.Mutex      // of who changes base, users and what follows
	named map[string]bool // unknown categories that were told of

	following sync.Mutex
	known     string // the last entry of the overrides' log that is in force; "" before the first
}

// New returns the configured policies, without overrides. The Night of the general one holds
// for all, those of overrides among them.
func New(general throttle.Policy, categories map[string]throttle.Policy) *Policies {
	l := &Policies{began: time.Now(), named: map[string]bool{}}
	l.clock.Store(l.began.UnixMicro())
	l.base.Store(newBase(general, maps.Clone(categories), nil, l.now()))
	l.mutes.Store(&map[Level]*Override{})
	return l
}

// SetBase has these policies take the place of the configured ones. The
// overrides above them stay.
func (l *Policies) SetBase(general throttle.Policy, categories map[string]throttle.Policy) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.base.Store(newBase(general, maps.Clone(categories), l.base.Load().overrides, l.now()))
}

// Base returns the configured policies. The caller must not change the map.
func (l *Policies) Base() (general throttle.Policy, categories map[string]throttle.Policy) {
	b := l.base.Load()
	return b.general, b.configured
}

// Scopes returns what limits a notification of that app, user and category, for
// Request.Scopes: the general policy in force and the category's own. It is empty for
// an exempt category. The caller must not change it. As long as nothing has changed it is
// the same slice.
func (l *Policies) Scopes(app, user, category string) []throttle.Scope {
	b := l.current()
	if p := l.user(user); p != nil {
		return p.scopes(b, Level{App: app, User: user, Category: category})
	}
	everyone := b.in(app)
	if scopes, ok := everyone.scopes[category]; ok {
		return scopes
	}
	return everyone.defaults
}

// An EffectivePolicy is a policy in force and where it is from. The zero Policy limits
// nothing.
type EffectivePolicy struct {
	Policy throttle.Policy
	Source Source
	Until  time.Time // when the override that it is from ends; zero for never
}

// effective is an EffectivePolicy as it is written in JSON.
type effective struct {
	policyForm
	// TimeZone and Spread are of the quiet hours.
	TimeZone string    `json:"time_zone,omitempty"`
	Spread   string    `json:"quiet_hours_spread,omitempty"`
	Source   Source    `json:"source,omitempty"`
	Until    time.Time `json:"until,omitzero"`
}

// MarshalJSON writes p as {"min_gap":"1s","rates":["10/1m"],"quiet_hours":["22:00-08:00"],
// "exempt":true,"time_zone":"Europe/Berlin","quiet_hours_spread":"10m","source":"user",
// "until":"…"}, without what is not set.
func (p EffectivePolicy) MarshalJSON() ([]byte, error) {
	w := effective{policyForm: formOf(p.Policy), Source: p.Source, Until: p.Until}
	if night := p.Policy.Night; len(p.Policy.Quiet) > 0 {
		w.TimeZone, w.Spread = night.Zone.String(), throttle.FormatPeriod(night.Spread)
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads what MarshalJSON writes. What names no source is the configuration's.
func (p *EffectivePolicy) UnmarshalJSON(text []byte) (err error) {
	var w effective
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	*p = EffectivePolicy{w.policy(), cmp.Or(w.Source, FromConfiguration), w.Until}
	if w.TimeZone == "" {
		return nil
	}
	if p.Policy.Night.Spread, err = time.ParseDuration(w.Spread); err != nil {
		return err
	}
	p.Policy.Night.Zone, err = zone.Load(w.TimeZone)
	return err
}

// InForce returns the policy in force at the level: its category's own, or the general
// one where it names none. Where it names no app or user it is the one for those without
// overrides.
func (l *Policies) InForce(at Level) EffectivePolicy { return l.InForceIf(at, nil) }

// InForceIf returns what InForce would with these overrides in the place of those of their
// levels, nil for none there. That of the zero level stands for limits.default.
func (l *Policies) InForceIf(at Level, supposed map[Level]*Override) EffectivePolicy {
	var overrides map[Level]*Override
	if p := l.user(at.User); p != nil {
		overrides = p.overrides
	}
	return l.current().inForce(at, supposed, overrides)
}

// Quota returns the rate that an override gives the quota of that key, and whether there
// is one.
func (l *Policies) Quota(key string) (rate throttle.Rate, found bool) {
	o := l.current().overrides[Level{Quota: key}]
	if o == nil || len(o.Policy.Rates) != 1 {
		return rate, false
	}
	return o.Policy.Rates[0], true
}

// Categories returns the categories that have a policy of their own for the user in the
// app.
func (l *Policies) Categories(app, user string) []string {
	names := map[string]bool{}
	for name := range l.current().in(app).scopes {
		names[name] = true
	}
	if p := l.user(user); p != nil {
		for of := range p.overrides {
			if of.App == app || of.App == "" {
				names[of.Category] = true
			}
		}
		delete(names, "") // the general limits
	}
	return slices.Sorted(maps.Keys(names))
}

// Zoneless returns one of the levels whose overrides have quiet hours where the configuration
// names no zone, so that they go by UTC; false where there is none.
func (l *Policies) Zoneless() (Level, bool) {
	b := l.base.Load()
	if b.general.Night.Zone != nil {
		return Level{}, false
	}
	quiet := func(all map[Level]*Override) (Level, bool) {
		for level, o := range all {
			if len(o.Policy.Quiet) > 0 {
				return level, true
			}
		}
		return Level{}, false
	}
	level, found := quiet(b.overrides)
	for _, p := range l.users.Range {
		if found {
			break
		}
		level, found = quiet(p.(*userPolicy).overrides)
	}
	return level, found
}

// Now is the clock of the overrides' Redis, as learned on the way; before the
// first Refresh, this machine's. It does not step with this machine's.
func (l *Policies) Now() time.Time { return time.UnixMilli(l.now()) }

// now is Redis's clock in Unix ms.
func (l *Policies) now() int64 { return (l.clock.Load() + time.Since(l.began).Microseconds()) / 1000 }

// observe learns from an answer of Redis what its clock said at that instant.
func (l *Policies) observe(clock int64, at time.Time) {
	l.clock.Store(clock*1000 - at.Sub(l.began).Microseconds())
}
