package limits

import (
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pushpace/pushpace/throttle"
)

// per is a policy of one in the period.
func per(period time.Duration) throttle.Policy {
	return throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: period}}}
}

func of(name string, p throttle.Policy) throttle.Scope { return throttle.Scope{Name: name, Policy: p} }

func TestPrecedence(t *testing.T) {
	t.Parallel()
	l := New(per(time.Second), map[string]throttle.Policy{"marketing": per(time.Hour), "security": {Exempt: true}})
	ends := time.Now().Add(time.Hour)
	set := func(user, category string, p throttle.Policy) Change {
		return Change{User: user, Category: category, To: &Override{User: user, Category: category, Policy: p, Until: ends}}
	}
	l.apply([]Change{
		set("vip", "", per(time.Millisecond)),
		set("both", "", per(2*time.Millisecond)),
		set("both", "marketing", per(time.Minute)),
		set("both", "security", per(3*time.Minute)),
		set("free", "marketing", throttle.Policy{Exempt: true}),
		set("", "digest", per(2*time.Hour)),
		set("", "orders", throttle.Policy{Exempt: true}),
		set("both", "orders", per(5*time.Minute)),
	})
	check := func(when string, want map[[2]string][]throttle.Scope) {
		t.Helper()
		for of, scopes := range want {
			for range 2 { // the second time they are remembered
				if got := l.Scopes(of[0], of[1]); !reflect.DeepEqual(got, scopes) {
					t.Errorf("%s: user %q, category %q: %v, want %v", when, of[0], of[1], got, scopes)
				}
			}
		}
	}
	general := throttle.Scope{Name: throttle.General, Policy: per(time.Second)}
	check("overridden", map[[2]string][]throttle.Scope{
		{"u", ""}:             {general},
		{"u", "unnamed"}:      {general},
		{"u", "marketing"}:    {general, of("marketing", per(time.Hour))},
		{"u", "security"}:     nil,
		{"u", "digest"}:       {general, of("digest", per(2*time.Hour))},
		{"u", "orders"}:       nil,
		{"vip", ""}:           {of(throttle.General, per(time.Millisecond))},
		{"vip", "unnamed"}:    {of(throttle.General, per(time.Millisecond))},
		{"vip", "marketing"}:  {of(throttle.General, per(time.Millisecond)), of("marketing", per(time.Hour))},
		{"vip", "security"}:   nil,
		{"both", "marketing"}: {of(throttle.General, per(2*time.Millisecond)), of("marketing", per(time.Minute))},
		{"both", "security"}:  {of(throttle.General, per(2*time.Millisecond)), of("security", per(3*time.Minute))},
		{"both", "orders"}:    {of(throttle.General, per(2*time.Millisecond)), of("orders", per(5*time.Minute))},
		{"both", "digest"}:    {of(throttle.General, per(2*time.Millisecond)), of("digest", per(2*time.Hour))},
		{"free", "marketing"}: nil,
		{"free", ""}:          {general},
	})
	l.SetBase(per(3*time.Second), map[string]throttle.Policy{"marketing": per(3 * time.Hour), "digest": per(4 * time.Hour)})
	general.Policy = per(3 * time.Second)
	check("reloaded", map[[2]string][]throttle.Scope{
		{"u", "marketing"}:    {general, of("marketing", per(3*time.Hour))},
		{"u", "security"}:     {general},
		{"u", "digest"}:       {general, of("digest", per(2*time.Hour))},
		{"vip", "marketing"}:  {of(throttle.General, per(time.Millisecond)), of("marketing", per(3*time.Hour))},
		{"both", "marketing"}: {of(throttle.General, per(2*time.Millisecond)), of("marketing", per(time.Minute))},
		{"free", "marketing"}: nil,
	})
	g, own := l.InForce("both", "marketing")
	if want := (EffectivePolicy{per(2 * time.Millisecond), FromUser, ends}); !reflect.DeepEqual(g, want) {
		t.Errorf("the general policy in force is %+v", g)
	}
	if want := (EffectivePolicy{per(time.Minute), FromUserCategory, ends}); !reflect.DeepEqual(own, want) {
		t.Errorf("the category's policy in force is %+v", own)
	}
	if _, own := l.InForce("u", "digest"); own.Source != FromCategory {
		t.Errorf("the category's policy in force is %+v", own)
	}
	// the ends of all have come by Redis's clock
	l.observe(ends.UnixMilli(), time.Now())
	check("ended", map[[2]string][]throttle.Scope{
		{"u", "digest"}:       {general, of("digest", per(4*time.Hour))},
		{"u", "orders"}:       {general},
		{"vip", ""}:           {general},
		{"both", "marketing"}: {general, of("marketing", per(3*time.Hour))},
		{"free", "marketing"}: {general, of("marketing", per(3*time.Hour))},
	})
	if g, own := l.InForce("both", "digest"); g.Source != FromConfiguration || own.Source != FromConfiguration {
		t.Errorf("in force are %+v and %+v", g, own)
	}
}

// Whatever changes, in whatever steps, the scopes are those that the rules of
// precedence give.
func TestScopesFollowTheRules(t *testing.T) {
	t.Parallel()
	users, categories := []string{"", "u", "v"}, []string{"", "a", "b", "c"}
	rapid.Check(t, func(rt *rapid.T) {
		policy := func(label string) throttle.Policy {
			p := rapid.SampledFrom([]throttle.Policy{{}, per(time.Second), per(time.Minute), {MinGap: time.Hour}, {Exempt: true}}).Draw(rt, label)
			return p
		}
		l := New(throttle.Policy{}, nil)
		var general throttle.Policy
		configured := map[string]throttle.Policy{}
		overrides := map[[2]string]*Override{}
		now := time.Now()
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
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
				all := map[[2]string]*Override{}
				for level, o := range overrides {
					copied := *o
					all[level] = &copied
				}
				if changes := l.replace(all); changes != nil {
					for _, c := range changes {
						if o := overrides[[2]string{c.User, c.Category}]; o == nil || !o.ended(now.UnixMilli()) {
							rt.Errorf("replaced by the same, there changes %+v", c)
						}
					}
				}
			default:
				o := &Override{User: rapid.SampledFrom(users).Draw(rt, "user"), Category: rapid.SampledFrom(categories).Draw(rt, "category")}
				if o.User == "" && o.Category == "" {
					continue
				}
				if rapid.Bool().Draw(rt, "unset") {
					delete(overrides, o.level())
					l.apply([]Change{{User: o.User, Category: o.Category}})
					continue
				}
				if o.Policy = policy("policy"); o.Category == "" && o.Policy.Exempt {
					continue
				}
				if rapid.Bool().Draw(rt, "ends") {
					o.Until = now.Add(time.Duration(rapid.IntRange(1, 5).Draw(rt, "minutes"))*time.Minute - 30*time.Second)
				}
				overrides[o.level()] = o
				l.apply([]Change{{User: o.User, Category: o.Category, To: o}})
			}
			at := func(user, category string) (throttle.Policy, bool) {
				o := overrides[[2]string{user, category}]
				if o == nil || o.ended(now.UnixMilli()) {
					return throttle.Policy{}, false
				}
				return o.Policy, true
			}
			for _, user := range users[1:] {
				for _, category := range categories {
					g, ok := at(user, "")
					if !ok {
						g = general
					}
					own, ok := at(user, category)
					if !ok || category == "" {
						if own, ok = at("", category); !ok || category == "" {
							own = configured[category]
						}
					}
					if got, want := l.Scopes(user, category), resolve(g, category, own); !reflect.DeepEqual(got, want) {
						rt.Fatalf("user %q, category %q: %v, want %v", user, category, got, want)
					}
				}
			}
		}
	})
}

// The lookup for each job allocates nothing, among 100,000 overrides as among none.
func TestScopesAllocateNothing(t *testing.T) {
	l := New(per(time.Second), map[string]throttle.Policy{"marketing": per(time.Hour), "security": {Exempt: true}})
	names := []string{"", "marketing", "security", "unnamed"}
	ask := func(user string) func() {
		return func() {
			for _, name := range names {
				l.Scopes(user, name)
			}
		}
	}
	if n := testing.AllocsPerRun(100, ask("user-7")); n != 0 {
		t.Errorf("without overrides: %v allocations", n)
	}
	all := map[[2]string]*Override{}
	ends := time.Now().Add(time.Hour)
	for i := range MaxOverrides {
		o := &Override{User: fmt.Sprint("user-", i), Policy: per(time.Minute), Until: ends}
		all[o.level()] = o
	}
	l.replace(all)
	for _, user := range []string{"user-7", "nobody"} {
		if n := testing.AllocsPerRun(100, ask(user)); n != 0 {
			t.Errorf("%s: %v allocations", user, n)
		}
	}
	// a change copies a small part of them
	o := &Override{User: "user-7", Policy: per(time.Hour)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const changes, most = 1000, 64 << 10 // bytes; all of them are megabytes
	for range changes {
		l.apply([]Change{{User: o.User, To: o}})
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / changes; each > most {
		t.Errorf("a change among %d overrides copies %d bytes", MaxOverrides, each)
	} else {
		t.Logf("%d bytes", each)
	}
}

// What is asked while everything changes is always one state or the other.
func TestScopesWhileTheyChange(t *testing.T) {
	t.Parallel()
	l := New(per(time.Second), nil)
	o := &Override{User: "u", Policy: per(time.Minute)}
	done := make(chan struct{})
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if got := l.Scopes("u", "c"); len(got) < 1 || len(got) > 2 || got[0].Name != throttle.General {
					t.Errorf("got %v", got)
					return
				}
				l.InForce("u", "c")
			}
		})
	}
	for i := range 300 {
		l.apply([]Change{{User: "u", To: o}, {Category: "c", To: &Override{Category: "c", Policy: per(time.Hour)}}})
		l.SetBase(per(time.Duration(i+1)*time.Second), nil)
		l.apply([]Change{{User: "u"}, {Category: "c"}})
		l.replace(map[[2]string]*Override{o.level(): o})
	}
	close(done)
	asking.Wait()
}

func BenchmarkScopes(b *testing.B) {
	l := New(per(time.Second), map[string]throttle.Policy{"marketing": per(time.Hour)})
	all := map[[2]string]*Override{}
	for i := range MaxOverrides {
		o := &Override{User: fmt.Sprint("user-", i), Policy: per(time.Minute)}
		all[o.level()] = o
	}
	l.replace(all)
	b.ReportAllocs()
	for b.Loop() {
		l.Scopes("user-77", "marketing")
	}
}
