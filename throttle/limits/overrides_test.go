package limits_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

func rate(count int, period time.Duration) throttle.Policy {
	return throttle.Policy{Rates: []throttle.Rate{{Count: count, Period: period}}}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestOverridesStoreAndLogChanges(t *testing.T) {
	redistest.OverAll(t, func(t *testing.T, client redis.UniversalClient, prefix string) {
		ctx := t.Context()
		o := limits.NewOverrides(client, prefix, time.Hour)
		odd := "a b/ü%{}" // names may have any characters
		until := time.Now().Add(time.Hour).Truncate(time.Millisecond).UTC()
		all := []limits.Override{
			{Level: limits.Level{User: "u1"}, Policy: throttle.Policy{MinGap: time.Second, Rates: []throttle.Rate{{Count: 10, Period: time.Minute}}}, By: "ann"},
			{Level: limits.Level{App: odd, User: odd, Category: odd}, Policy: rate(1, time.Minute), Until: until, By: "bob at home"},
			{Level: limits.Level{Category: "security"}, Policy: throttle.Policy{Exempt: true}, By: "ann"},
		}
		for _, override := range all {
			ok(t, o.Set(ctx, override))
			ok(t, o.Set(ctx, override)) // changes nothing
		}
		for _, want := range all {
			got, err := o.Get(ctx, want.Level)
			ok(t, err)
			if got == nil || time.Since(got.At) > time.Minute || time.Since(got.At) < -time.Minute {
				t.Fatalf("got %+v", got)
			}
			got.At, got.Version = time.Time{}, 0
			if !reflect.DeepEqual(*got, want) {
				t.Errorf("got %+v, want %+v", *got, want)
			}
		}
		if got, err := o.Get(ctx, limits.Level{User: "nobody"}); got != nil || err != nil {
			t.Errorf("of nobody: %+v, %v", got, err)
		}
		listed := 0
		ok(t, o.List(ctx, func(limits.Override) bool { listed++; return true }))
		if listed != len(all) {
			t.Errorf("%d are listed", listed)
		}
		listed = 0
		ok(t, o.List(ctx, func(limits.Override) bool { listed++; return false }))
		if listed != 1 {
			t.Errorf("%d are listed after the listing was broken off", listed)
		}

		raised := all[0]
		raised.Policy.MinGap, raised.By = 500*time.Millisecond, "carl"
		ok(t, o.Set(ctx, raised))
		for want, user := range map[bool]string{true: "u1", false: "nobody"} {
			if there, err := o.Unset(ctx, limits.Level{User: user}, "ann"); there != want || err != nil {
				t.Errorf("unset of %s: %t, %v", user, there, err)
			}
		}
		past := all[0]
		past.Until = time.Now().Add(-time.Second)
		if err := o.Set(ctx, past); !errors.Is(err, limits.ErrPast) {
			t.Errorf("one that has ended: %v", err)
		}

		log, err := o.Log(ctx, 0, 100)
		ok(t, err)
		var entries []string
		for _, c := range slices.Backward(log) {
			entry := fmt.Sprint(c.Version, " ", c.Why, " ", c.Key(), " by ", c.By)
			for _, side := range []*limits.Override{c.From, c.To} {
				if side == nil {
					entry += " -"
				} else {
					entry += " " + side.Policy.MinGap.String()
				}
			}
			entries = append(entries, entry)
		}
		want := []string{
			"1 set user=u1 by ann - 1s",
			"2 set " + limits.Level{App: odd, User: odd, Category: odd}.Key() + " by bob at home - 0s",
			"3 set category=security by ann - 0s",
			"4 set user=u1 by carl 1s 500ms",
			"5 unset user=u1 by ann 500ms -",
		}
		if !slices.Equal(entries, want) {
			t.Errorf("the log is\n%s\nwant\n%s", strings.Join(entries, "\n"), strings.Join(want, "\n"))
		}
		if newest, err := o.Log(ctx, 0, 1); err != nil || len(newest) != 1 || newest[0].Version != 5 {
			t.Errorf("the newest entry: %+v, %v", newest, err)
		}
	})
}

func TestInvalidOverridesAreRejected(t *testing.T) {
	t.Parallel()
	good := limits.Override{Level: limits.Level{User: "u"}, Policy: rate(10, time.Minute), By: "ann"}
	for _, c := range []struct {
		name string
		make func(*limits.Override)
		want string
	}{
		{"nobody", func(o *limits.Override) { o.User = "" }, "app, user and category are missing"},
		{"control character", func(o *limits.Override) { o.User = "a\nb" }, "user: must be UTF-8 without control"},
		{"a space at the end", func(o *limits.Override) { o.User = "dup " }, "user: ends in a space"},
		{"a space that is not seen", func(o *limits.Override) { o.Category = "\u00a0news" }, "category: begins with white space (U+00A0)"},
		{"long name", func(o *limits.Override) { o.User = strings.Repeat("x", 129) }, "user: must be UTF-8 without control characters and characters that cannot be seen, of at most 128 bytes"},
		{"the general limits' name", func(o *limits.Override) { o.Category = "all" }, "category: all is the name of the general limits"},
		{"by nobody", func(o *limits.Override) { o.By = "" }, "by: is missing"},
		{"an exempt user", func(o *limits.Override) { o.Policy = throttle.Policy{Exempt: true} }, "exempt: is for a category"},
		{"nothing", func(o *limits.Override) { o.Policy = throttle.Policy{} }, "min_gap: is missing, as rates and quiet_hours are"},
		{"exempt and limited", func(o *limits.Override) { o.Category, o.Policy.Exempt = "c", true }, "exempt: excludes"},
		{"negative gap", func(o *limits.Override) { o.Policy.MinGap = -1 }, "min_gap: -1ns is negative"},
		{"beyond the horizon", func(o *limits.Override) { o.Policy = rate(1, 25*time.Hour) }, "rates: 1/25h has a longer period"},
		{"negative count", func(o *limits.Override) { o.Policy = rate(-1, time.Hour) }, `rates: rate "-1/1h"`},
		{"a million a second", func(o *limits.Override) { o.Policy = rate(1e6, time.Second) }, "rates: 1000000/1s allows more than"},
		{"a gap beyond every period", func(o *limits.Override) { o.Policy.MinGap = time.Hour }, "min_gap: 1h is longer than every"},
		{"a quota in an app", func(o *limits.Override) { o.Level = limits.Level{App: "shop", Quota: "fcm/p"} }, "quota: excludes app, user and category"},
		{"a quota with a gap", func(o *limits.Override) { o.Level, o.Policy.MinGap = limits.Level{Quota: "fcm/p"}, time.Second }, "rates: want one for a quota"},
		{"a quota without a rate", func(o *limits.Override) {
			o.Level, o.Policy = limits.Level{Quota: "fcm/p"}, throttle.Policy{Exempt: true}
		}, "rates: want one for a quota"},
		{"a quota of a long name", func(o *limits.Override) { o.Level = limits.Level{Quota: strings.Repeat("x", 1025)} }, "quota: must be UTF-8 without control characters and characters that cannot be seen, of at most 1024"},
		{"a mute with a rate", func(o *limits.Override) { o.Mute = true }, "mute: "},
		{"an exempt mute", func(o *limits.Override) { o.Mute, o.Policy = true, throttle.Policy{Exempt: true} }, "mute: "},
		{"a mute of a quota", func(o *limits.Override) { o.Level, o.Policy = limits.Level{Quota: "q", Mute: true}, throttle.Policy{} }, "quota: "},
		{"all, and no mute", func(o *limits.Override) { o.All = true }, "all: "},
		{"year 10000", func(o *limits.Override) { o.Until = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, "until: "},
	} {
		o := good
		c.make(&o)
		err := o.Validate(24 * time.Hour)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		store := limits.NewOverrides(redistest.Shared(t).Client(t), redistest.Prefix(), 0)
		if got := store.Set(t.Context(), o); got == nil || got.Error() != err.Error() {
			t.Errorf("%s: set answers %v", c.name, got)
		}
		if got := store.Import(t.Context(), []limits.Override{good, o}); got == nil || !strings.HasSuffix(got.Error(), err.Error()) {
			t.Errorf("%s: import answers %v", c.name, got)
		}
		if log, err := store.Log(t.Context(), 0, 1); err != nil || len(log) > 0 {
			t.Errorf("%s: it has left %v, %v", c.name, log, err)
		}
	}
	if err := good.Validate(24 * time.Hour); err != nil {
		t.Error(err)
	}
}

func TestOverrideJSON(t *testing.T) {
	t.Parallel()
	o := limits.Override{Level: limits.Level{App: "a", User: "u", Category: "c"}, Policy: throttle.Policy{MinGap: time.Second, Rates: []throttle.Rate{{Count: 10, Period: time.Minute}}},
		Until: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), By: "ann"}
	text, err := json.Marshal(o)
	ok(t, err)
	const want = `{"app":"a","user":"u","category":"c","min_gap":"1s","rates":["10/1m"],"until":"2026-12-01T00:00:00Z","by":"ann"}`
	if string(text) != want {
		t.Errorf("written as %s", text)
	}
	var read limits.Override
	if err := json.Unmarshal(text, &read); err != nil || !reflect.DeepEqual(read, o) {
		t.Errorf("read as %+v, %v", read, err)
	}
	const mute = `{"user":"ada","mute":true,"all":true,"by":"ann"}`
	read = limits.Override{}
	ok(t, json.Unmarshal([]byte(mute), &read))
	if text, err := json.Marshal(read); err != nil || !read.Mute || !read.All || string(text) != mute {
		t.Errorf("a mute is read as %+v and written as %s, %v", read, text, err)
	}
	for _, bad := range []string{`{"min_gap":"1 s"}`, `{"min_gap":1}`, `{"rates":["x"]}`, `{"rate":["1/1m"]}`, `{"until":"tomorrow"}`, `[]`} {
		if err := json.Unmarshal([]byte(bad), &read); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

// Overrides.InForce, which reads Redis, agrees with all followers.
func TestInForceEqualsFollowers(t *testing.T) {
	redistest.OverAll(t, func(t *testing.T, client redis.UniversalClient, prefix string) {
		ctx := t.Context()
		o, l := limits.NewOverrides(client, prefix, 0), limits.New(rate(1, time.Second), map[string]throttle.Policy{"news": rate(1, time.Minute)})
		var all []limits.Level
		for _, app := range []string{"", "shop", "kiosk"} {
			for _, user := range []string{"", "ada", "bob"} {
				for _, category := range []string{"", "news", "orders"} {
					all = append(all, limits.Level{App: app, User: user, Category: category})
				}
			}
		}
		ends := time.Now().Add(time.Hour).Truncate(time.Millisecond).UTC()
		overridden := []limits.Level{{App: "shop"}, {User: "ada"}, {App: "shop", User: "ada"}, {App: "shop", Category: "news"}, {Category: "orders"}, {App: "kiosk", User: "bob", Category: "orders"}}
		for i, level := range overridden {
			ok(t, o.Set(ctx, limits.Override{Level: level, Policy: rate(1, time.Duration(i+1)*time.Hour), Until: ends, By: "ann"}))
		}
		// ended, and not removed yet
		ok(t, client.HSet(ctx, prefix+":{limits}:overrides", "app=kiosk", `1-1 ann {"rates":["1/9h"],"until":"2020-01-01T00:00:00Z"}`).Err())
		_, err := o.Refresh(ctx, l)
		ok(t, err)
		for _, at := range all {
			general, own, exactly, err := o.InForce(ctx, l, at)
			ok(t, err)
			if want := l.InForce(limits.Level{App: at.App, User: at.User}); !reflect.DeepEqual(general, want) {
				t.Errorf("the general policy at %+v is %+v, want %+v", at, general, want)
			}
			if want := l.InForce(at); !reflect.DeepEqual(own, want) {
				t.Errorf("the policy at %+v is %+v, want %+v", at, own, want)
			}
			if (exactly != nil) != slices.Contains(overridden, at) || exactly != nil && exactly.Level != at {
				t.Errorf("the override of exactly %+v is %+v", at, exactly)
			}
		}
	})
}

// Entries of another version are an error, and never apply to more than their level.
func TestForeignEntriesAreErrors(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"", "u/", "a/u/c", "user=u&region=eu", "region=eu", "user=", "user=a&user=b", "user=u&app=shop", "user=%zz"} {
		client, prefix := redistest.Shared(t).Client(t), redistest.Prefix()
		ctx := t.Context()
		o := limits.NewOverrides(client, prefix, 0)
		f := follow(t, o)
		ok(t, o.Set(ctx, limits.Override{Level: limits.Level{User: "u"}, Policy: rate(1, time.Minute), By: "ann"}))
		eventually.Holds(t, "in force", func() bool { return f.period("u") == time.Minute })
		entry := `2-1 ann {"rates":["1/1h"]}`
		client.HSet(ctx, prefix+":{limits}:overrides", field, entry)
		client.XAdd(ctx, &redis.XAddArgs{Stream: prefix + ":{limits}:log", ID: "2-1", Values: []string{"field", field, "why", "set", "by", "ann", "from", "", "to", entry}})
		eventually.Holds(t, "it is told", f.failing)
		if f.period("u") != time.Minute || f.period("v") != time.Second {
			t.Errorf("%q: something else is in force", field)
		}
		const want = "an entry of the overrides has the form of a different version of pushpace"
		if err := o.List(ctx, func(limits.Override) bool { return true }); err == nil || err.Error() != want {
			t.Errorf("%q: listed: %v", field, err)
		}
		if _, err := o.Log(ctx, 0, 10); err == nil || err.Error() != want {
			t.Errorf("%q: the log: %v", field, err)
		}
	}
}

// follower follows the overrides until the test ends.
type follower struct {
	*limits.Policies
	mu      sync.Mutex
	changes []limits.Change
	err     error
	looks   int // successful polls
}

func follow(t *testing.T, o *limits.Overrides) *follower {
	t.Helper()
	f := &follower{Policies: limits.New(rate(1, time.Second), map[string]throttle.Policy{"news": rate(1, time.Minute)})}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.Follow(ctx, f.Policies, func(changes []limits.Change, err error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.changes, f.err = append(f.changes, changes...), err
			if err == nil {
				f.looks++
			}
		})
	}()
	t.Cleanup(func() { stop(); <-done })
	eventually.Holds(t, "follows", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.looks > 0 })
	return f
}

// next waits until the condition holds. It fails after two more successful polls, because one poll
// may have been in flight.
func (f *follower) next(t *testing.T, what string, condition func() bool) {
	t.Helper()
	looks := func() int { f.mu.Lock(); defer f.mu.Unlock(); return f.looks }
	before := looks()
	eventually.Holds(t, what, func() bool {
		seen := looks()
		if condition() {
			return true
		}
		if seen > before+1 {
			t.Fatalf("not after %d looks: %s", seen-before, what)
		}
		return false
	})
}

// period returns the period of the general limit in force.
func (f *follower) period(user string) time.Duration { return f.periodIn("shop", user) }

func (f *follower) periodIn(app, user string) time.Duration {
	return f.Scopes(app, user, "")[0].Policy.Rates[0].Period
}

func (f *follower) failing() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.err != nil }

func (f *follower) why() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, c := range f.changes {
		all = append(all, c.Why+" "+c.Key())
	}
	return all
}

func TestTooManyOverridesAreRejected(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t).Client(t), redistest.Prefix()
	fields := make([]any, 0, 2*limits.MaxOverrides)
	for i := range limits.MaxOverrides {
		fields = append(fields, fmt.Sprintf("user=u%d", i), `1-1 ann {"rates":["1/1m"]}`)
	}
	ok(t, client.HSet(t.Context(), prefix+":{limits}:overrides", fields...).Err())
	o := limits.NewOverrides(client, prefix, 0)
	if err := o.Set(t.Context(), limits.Override{Level: limits.Level{User: "one more"}, Policy: rate(1, time.Hour), By: "ann"}); !errors.Is(err, limits.ErrTooManyOverrides) {
		t.Errorf("one more: %v", err)
	}
	ok(t, o.Set(t.Context(), limits.Override{Level: limits.Level{User: "u7"}, Policy: rate(1, time.Hour), By: "ann"}))
	began := time.Now()
	f := follow(t, o)
	if f.period("u7") != time.Hour || f.period("u99999") != time.Minute {
		t.Error("they are not in force")
	}
	t.Logf("%d are read within %s", limits.MaxOverrides, time.Since(began))
}

// A change that expects a different version than the stored one has no effect.
func TestChangeOfOtherVersionIsRejected(t *testing.T) {
	redistest.OverAll(t, func(t *testing.T, client redis.UniversalClient, prefix string) {
		ctx, level := t.Context(), limits.Level{User: "u"}
		o := limits.NewOverrides(client, prefix, 0)
		to := func(n int) limits.Override {
			return limits.Override{Level: level, Policy: rate(n, time.Minute), By: "ann"}
		}
		unset := func(over int64) error {
			_, err := o.Unset(ctx, level, "ann", over)
			return err
		}
		overtaken := func(err error) {
			t.Helper()
			if !errors.Is(err, limits.ErrConflict) {
				t.Errorf("overtaken: %v", err)
			}
		}
		overtaken(o.Set(ctx, to(1), 7))
		overtaken(unset(7))
		ok(t, o.Set(ctx, to(1), 0))
		overtaken(o.Set(ctx, to(2), 0))
		overtaken(o.Set(ctx, to(1), 0)) // equal, but expects that no override is stored
		there, err := o.Get(ctx, level)
		ok(t, err)
		if there.Version != 1 || there.Policy.Rates[0].Count != 1 {
			t.Errorf("%+v", there)
		}
		ok(t, o.Set(ctx, to(3), there.Version))
		overtaken(unset(there.Version))
		ok(t, unset(2))
		if log, err := o.Log(ctx, 0, 10); err != nil || len(log) != 3 || log[0].From.Version != 2 || log[0].To != nil {
			t.Errorf("%+v, %v", log, err)
		}
	})
}
