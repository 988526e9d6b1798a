package limits

import (
	"fmt"
	"reflect"
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/quiet"
)

// per returns a policy of one notification per period.
func per(period time.Duration) throttle.Policy {
	return throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: period}}}
}

// at returns the level of the names.
func at(app, user, category string) Level { return Level{App: app, User: user, Category: category} }

func of(name string, p throttle.Policy) throttle.Scope { return throttle.Scope{Name: name, Policy: p} }

// After any changes the most specific override of the app and the user decides the scopes and the
// policy in force. Mutes do not affect them.
func TestMostSpecificOverrideDecides(t *testing.T) {
	t.Parallel()
	apps, users, categories := []string{"", "x", "y"}, []string{"", "u", "v"}, []string{"", "a", "b", "c"}
	rapid.Check(t, func(rt *rapid.T) {
		policy := func(label string) throttle.Policy {
			p := rapid.SampledFrom([]throttle.Policy{{}, per(time.Second), per(time.Minute), {MinGap: time.Hour}, {Exempt: true}}).Draw(rt, label)
			return p
		}
		l := New(throttle.Policy{}, nil)
		var general throttle.Policy
		configured := map[string]throttle.Policy{}
		overrides := map[Level]*Override{}
		now := time.Now()
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			switch rapid.IntRange(0, 6).Draw(rt, "step") {
			case 0:
				if general = policy("default"); general.Exempt {
					general = throttle.Policy{}
				}
				configured = map[string]throttle.Policy{"a": policy("a"), "b": policy("b")}
				l.SetBase(general, configured)
			case 1:
				now = now.Add(time.Minute)
				l.observe(now.UnixMilli(), time.Now())
			case 2:
				all := map[Level]*Override{}
				for level, o := range overrides {
					copied := *o
					all[level] = &copied
				}
				for _, c := range l.replace(all) {
					if o := overrides[c.Level]; !c.Mute && (o == nil || !o.ended(now.UnixMilli())) {
						rt.Errorf("replaced by the same, there changes %+v", c)
					}
				}
			case 3:
				mute := Level{App: rapid.SampledFrom(apps[1:]).Draw(rt, "app"), Category: rapid.SampledFrom(categories).Draw(rt, "category"), Mute: true}
				l.apply([]Change{{Level: mute, To: &Override{Level: mute}}})
			default:
				o := &Override{Level: at(rapid.SampledFrom(apps).Draw(rt, "app"), rapid.SampledFrom(users).Draw(rt, "user"), rapid.SampledFrom(categories).Draw(rt, "category"))}
				if o.Level == (Level{}) {
					continue
				}
				if rapid.Bool().Draw(rt, "unset") {
					delete(overrides, o.Level)
					l.apply([]Change{{Level: o.Level}})
					continue
				}
				if o.Policy = policy("policy"); o.Category == "" && o.Policy.Exempt {
					continue
				}
				if rapid.Bool().Draw(rt, "ends") {
					o.Until = now.Add(time.Duration(rapid.IntRange(1, 5).Draw(rt, "minutes"))*time.Minute - 30*time.Second)
				}
				overrides[o.Level] = o
				l.apply([]Change{{Level: o.Level, To: o}})
			}
			first := func(configured throttle.Policy, sources []Source, levels ...Level) EffectivePolicy {
				for i, level := range levels {
					if o := overrides[level]; o != nil && !o.ended(now.UnixMilli()) {
						return EffectivePolicy{o.Policy, sources[i], o.Until}
					}
				}
				return EffectivePolicy{Policy: configured, Source: FromConfiguration}
			}
			for _, app := range apps[1:] {
				for _, user := range users[1:] {
					for _, category := range categories {
						g := first(general, []Source{FromAppUser, FromUser, FromApp}, at(app, user, ""), at("", user, ""), at(app, "", ""))
						own, general := g, g.Policy
						var want []throttle.Scope
						if category != "" {
							own = first(configured[category], []Source{FromAppUserCategory, FromUserCategory, FromAppCategory, FromCategory},
								at(app, user, category), at("", user, category), at(app, "", category), at("", "", category))
						}
						if !own.Policy.Exempt && !general.Unlimited() {
							want = append(want, of(throttle.General, general))
						}
						if category != "" && !own.Policy.Exempt && !own.Policy.Unlimited() {
							want = append(want, of(category, own.Policy))
						}
						if got := l.InForce(at(app, user, category)); !reflect.DeepEqual(got, own) {
							rt.Fatalf("in force for app %q, user %q, category %q is %+v, want %+v", app, user, category, got, own)
						}
						if got := l.Scopes(app, user, category); !reflect.DeepEqual(got, want) {
							rt.Fatalf("app %q, user %q, category %q: %v, want %v", app, user, category, got, want)
						}
					}
				}
			}
		}
	})
}

// The lookup for each job allocates nothing, with 100,000 overrides and with none.
func TestScopesAllocateNothing(t *testing.T) {
	l := New(per(time.Second), map[string]throttle.Policy{"marketing": per(time.Hour), "security": {Exempt: true}})
	names := []string{"", "marketing", "security", "unnamed"}
	ask := func(app, user string) func() {
		return func() {
			for _, name := range names {
				l.Scopes(app, user, name)
			}
		}
	}
	if n := testing.AllocsPerRun(100, ask("shop", "user-7")); n != 0 {
		t.Errorf("without overrides: %v allocations", n)
	}
	all := map[Level]*Override{}
	ends := time.Now().Add(time.Hour)
	for i := range MaxOverrides {
		o := &Override{Level: Level{User: fmt.Sprint("user-", i)}, Policy: per(time.Minute), Until: ends}
		all[o.Level] = o
	}
	for _, level := range []Level{at("kiosk", "", ""), at("kiosk", "user-8", ""), at("kiosk", "", "digest")} {
		all[level] = &Override{Level: level, Policy: per(time.Minute)}
	}
	l.replace(all)
	for _, app := range []string{"shop", "kiosk"} {
		for _, user := range []string{"user-7", "user-8", "nobody"} {
			if n := testing.AllocsPerRun(100, ask(app, user)); n != 0 {
				t.Errorf("%s in %s: %v allocations", user, app, n)
			}
		}
	}
	// a change copies a small part of the overrides
	o := &Override{Level: Level{User: "user-7"}, Policy: per(time.Hour)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const changes, most = 1000, 64 << 10 // bytes; all overrides are megabytes
	for range changes {
		l.apply([]Change{{Level: o.Level, To: o}})
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / changes; each > most {
		t.Errorf("a change among %d overrides copies %d bytes", MaxOverrides, each)
	} else {
		t.Logf("%d bytes", each)
	}
}

// A caller that compares the results of two calls of Scopes sees a change, even a reverted one.
func TestChangedScopesHaveNewIdentity(t *testing.T) {
	t.Parallel()
	set := func(level Level, gap time.Duration) Change {
		return Change{Level: level, To: &Override{Level: level, Policy: per(gap)}}
	}
	everyone, one := at("", "", "news"), at("", "u", "")
	for name, c := range map[string]struct {
		before, there, back Change
	}{
		"a category's":            {set(everyone, time.Second), set(everyone, time.Minute), set(everyone, time.Second)},
		"a category's first":      {Change{Level: everyone}, set(everyone, time.Minute), Change{Level: everyone}},
		"a user's":                {set(one, time.Second), set(one, time.Minute), set(one, time.Second)},
		"everyone's below a user": {set(one, time.Second), set(everyone, time.Minute), Change{Level: everyone}},
	} {
		l := New(per(time.Hour), nil)
		l.apply([]Change{c.before})
		before, again := l.Scopes("shop", "u", "news"), l.Scopes("shop", "u", "news")
		l.apply([]Change{c.there})
		l.apply([]Change{c.back})
		after := l.Scopes("shop", "u", "news")
		if &before[0] != &again[0] || &before[0] == &after[0] || fmt.Sprint(before) != fmt.Sprint(after) {
			t.Errorf("%s: %v, %v, and %v after it was changed back", name, before, again, after)
		}
	}
}

// Quiet hours alone make a scope, and so does a category's policy that turns quiet hours off. Zone
// and spread of limits.default apply to all policies.
func TestQuietHoursMakeScope(t *testing.T) {
	t.Parallel()
	hours, err := quiet.ParseHours([]string{"22:00-08:00"})
	if err != nil {
		t.Fatal(err)
	}
	night := quiet.Night{Zone: time.UTC, Spread: time.Minute}
	with := func(p throttle.Policy, h quiet.Hours) throttle.Policy {
		p.Quiet, p.Night = h, night
		return p
	}
	only := throttle.Policy{Quiet: hours}
	l := New(throttle.Policy{Night: night}, map[string]throttle.Policy{
		"marketing": only, "alerts": {Quiet: quiet.Hours{}}, "security": {Exempt: true}, "news": per(time.Hour),
	})
	for _, c := range []struct {
		general  throttle.Policy
		category string
		want     []throttle.Scope
	}{
		{throttle.Policy{}, "", nil},
		{throttle.Policy{}, "marketing", []throttle.Scope{of("marketing", with(throttle.Policy{}, hours))}},
		{only, "", []throttle.Scope{of(throttle.General, with(throttle.Policy{}, hours))}},
		{only, "alerts", []throttle.Scope{of(throttle.General, with(throttle.Policy{}, hours)), of("alerts", with(throttle.Policy{}, quiet.Hours{}))}},
		{only, "news", []throttle.Scope{of(throttle.General, with(throttle.Policy{}, hours)), of("news", with(per(time.Hour), nil))}},
		{only, "security", nil},
	} {
		general := c.general
		general.Night = night
		_, categories := l.Base()
		l.SetBase(general, categories)
		if got := l.Scopes("shop", "u", c.category); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q under %v: %+v, want %+v", c.category, c.general, got, c.want)
		}
	}
	level := Level{User: "vip"}
	l.apply([]Change{{Level: level, To: &Override{Level: level, Policy: per(time.Second)}}})
	if got := l.Scopes("shop", "vip", ""); !reflect.DeepEqual(got, []throttle.Scope{of(throttle.General, with(per(time.Second), nil))}) {
		t.Errorf("an override leaves %+v", got)
	}
}
