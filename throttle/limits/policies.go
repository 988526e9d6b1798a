// Package limits finds the policies in force: the configured ones, and the overrides that
// operators set at run time.
//
// Start with Policies. Scopes returns the scopes that limit a notification, and InForce the
// effective policy and its source. Readers take no lock and allocate nothing, as each
// notification is one read; a change swaps immutable copies.
//
// Overrides stores the operators' settings and their audit log in Redis. Every process follows
// the log (Follow) and applies changes to its Policies, so that a change binds everywhere within
// a second.
//
// Both the general limits and the category's own apply. Of each column, the first policy that is
// set counts; the flags are those of the command that sets it:
//
//	general limits   a category's own
//	--app --user     --app --user --category
//	--user           --user --category
//	--app            --app --category
//	                 --category
//	limits.default   limits.categories
//
// So a user's override precedes an override for all users, and among either the override in the
// app precedes the one in all apps. An override of one app does not affect other apps.
//
// --quota overrides the rate of a meter (Quota), which belongs to no user. A mute of any of these
// levels is independent of the limits (Muted).
//
// Invariants:
//   - An override replaces the whole policy at its level.
//   - An override and its log entry are written atomically. Versions have no gaps, so that a
//     follower detects a missed version and reloads all overrides.
//   - An override ends by Redis's clock, also while Redis is unreachable.
//   - While Redis is unreachable the policies stay as they are.
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

// Policies are the policies in force: the configured ones, and the overrides from Follow or
// Refresh. Safe for concurrent use; readers take no lock.
type Policies struct {
	base  atomic.Pointer[base]
	users sync.Map // *userPolicy by user; the values are immutable
	mutes atomic.Pointer[map[Level]*Override]
	began time.Time    // start, by this process's clock; only differences of its times count
	clock atomic.Int64 // Redis's clock at began, in µs

	unknown atomic.Pointer[UnknownCategory]

	mu    sync.Mutex      // for writers of base, users and the fields below
	named map[string]bool // unknown categories that were reported

	following sync.Mutex
	known     string // the last applied log entry; "" before the first
}

// New returns the configured policies, without overrides. The Night of general applies to all
// policies, including overrides.
func New(general throttle.Policy, categories map[string]throttle.Policy) *Policies {
	l := &Policies{began: time.Now(), named: map[string]bool{}}
	l.clock.Store(l.began.UnixMicro())
	l.base.Store(newBase(general, maps.Clone(categories), nil, l.now()))
	l.mutes.Store(&map[Level]*Override{})
	return l
}

// SetBase replaces the configured policies. The overrides stay.
func (l *Policies) SetBase(general throttle.Policy, categories map[string]throttle.Policy) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.base.Store(newBase(general, maps.Clone(categories), l.base.Load().overrides, l.now()))
}

// Base returns the configured policies. The caller must not modify the map.
func (l *Policies) Base() (general throttle.Policy, categories map[string]throttle.Policy) {
	b := l.base.Load()
	return b.general, b.configured
}

// Scopes returns the Request.Scopes of a notification: the general policy in force and the
// category's own; no scopes for an exempt category. The caller must not modify the slice. Until a
// change, Scopes returns the same slice.
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

// An EffectivePolicy is a policy in force and its source. The zero Policy limits nothing.
type EffectivePolicy struct {
	Policy throttle.Policy
	Source Source
	Until  time.Time // end of the override; zero for never
}

// effective is an EffectivePolicy in JSON.
type effective struct {
	policyForm
	// TimeZone and Spread of the quiet hours.
	TimeZone string    `json:"time_zone,omitempty"`
	Spread   string    `json:"quiet_hours_spread,omitempty"`
	Source   Source    `json:"source,omitempty"`
	Until    time.Time `json:"until,omitzero"`
}

// MarshalJSON writes p as {"min_gap":"1s","rates":["10/1m"],"quiet_hours":["22:00-08:00"],
// "exempt":true,"time_zone":"Europe/Berlin","quiet_hours_spread":"10m","source":"user",
// "until":"…"}, without empty fields.
func (p EffectivePolicy) MarshalJSON() ([]byte, error) {
	w := effective{policyForm: formOf(p.Policy), Source: p.Source, Until: p.Until}
	if night := p.Policy.Night; len(p.Policy.Quiet) > 0 {
		w.TimeZone, w.Spread = night.Zone.String(), throttle.FormatPeriod(night.Spread)
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads the form of MarshalJSON. A missing source means FromConfiguration.
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

// InForce returns the policy in force at the level: the category's own, or without a category the
// general one. For an empty app or user, overrides of single apps or users do not count.
func (l *Policies) InForce(at Level) EffectivePolicy { return l.InForceIf(at, nil) }

// InForceIf is InForce as if each of the supposed overrides replaced its level's override; a nil
// override removes it. The zero level stands for limits.default.
func (l *Policies) InForceIf(at Level, supposed map[Level]*Override) EffectivePolicy {
	var overrides map[Level]*Override
	if p := l.user(at.User); p != nil {
		overrides = p.overrides
	}
	return l.current().inForce(at, supposed, overrides)
}

// Quota returns the rate of the quota's override, and whether there is one.
func (l *Policies) Quota(key string) (rate throttle.Rate, found bool) {
	o := l.current().overrides[Level{Quota: key}]
	if o == nil || len(o.Policy.Rates) != 1 {
		return rate, false
	}
	return o.Policy.Rates[0], true
}

// Categories returns the categories that have their own policy for the user in the app.
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

// LevelWithoutZone returns the level of an override whose quiet hours use UTC, because the
// configuration has no time zone; false if there is none.
func (l *Policies) LevelWithoutZone() (Level, bool) {
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

// Now returns the estimated time of the overrides' Redis; before the first Refresh, this machine's
// time. Later steps of this machine's clock do not change the estimate.
func (l *Policies) Now() time.Time { return time.UnixMilli(l.now()) }

// now returns Redis's clock in Unix ms.
func (l *Policies) now() int64 { return (l.clock.Load() + time.Since(l.began).Microseconds()) / 1000 }

// observe records that Redis's clock showed clock, in Unix ms, at the time at.
func (l *Policies) observe(clock int64, at time.Time) {
	l.clock.Store(clock*1000 - at.Sub(l.began).Microseconds())
}
