package pause

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
)

func TestOperatorPausesAreListedUntilEnd(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		ctx, store := t.Context(), NewStore(client, "")
		list := func(want ...Pause) {
			t.Helper()
			all, err := NewStore(client, "").Read(ctx)
			got := all.Operators
			if err != nil || len(got) != len(want) {
				t.Fatalf("listed %+v, %v; want %+v", got, err, want)
			}
			for i, h := range got {
				if age := time.Since(h.At); age < -time.Second || age > time.Minute {
					t.Errorf("begun %s ago", age)
				}
				if left := h.Left(time.Now()); h.Until.IsZero() && left != Forever || !h.Until.IsZero() && (time.Until(h.Until)-left).Abs() > time.Second {
					t.Errorf("%+v is over in %s", h, left)
				}
				h.Kind, h.At, h.ends = "", time.Time{}, time.Time{}
				if h != want[i] {
					t.Errorf("listed %+v, want %+v", h, want[i])
				}
			}
		}
		begin := func(h Pause, want error) {
			t.Helper()
			if err := store.Begin(ctx, &h); !errors.Is(err, want) {
				t.Errorf("begin %+v: %v, want %v", h, err, want)
			}
		}
		end := func(h Pause, want bool) {
			t.Helper()
			if there, err := store.End(ctx, h); err != nil || there != want {
				t.Errorf("end %+v: %t, %v", h, there, err)
			}
		}
		list()
		odd := Pause{App: `a "b"/{c} é`, Platform: push.FCM, Category: "x y", By: "ada@host", Reason: "it says: 1 2 3"}
		begin(odd, nil)
		all := Pause{By: "ben"}
		begin(all, nil)
		over := Pause{App: "over"}
		client.HSet(ctx, "pushpace:{pauses}:operators", over.Selector(), `{"ends":"1"}`)
		later := Pause{App: "later", Until: time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)}
		begin(later, nil)
		list(all, odd, later)
		odd.By, odd.Reason, odd.Until = "cyd", "", later.Until
		begin(odd, nil) // replaces the first
		list(all, odd, later)
		begin(Pause{Until: time.Now().Add(-time.Minute)}, ErrOver)
		end(Pause{App: "shop"}, false)
		end(Pause{By: "anyone"}, true)
		end(all, false)
		list(odd, later)
		end(over, false)
		end(later, true)
		end(later, false)
		list(odd)
		begin(later, nil)
		list(odd, later)
		if _, err := store.End(ctx, Pause{Platform: "pigeon"}); !errors.As(err, new(push.Faults)) {
			t.Errorf("end an invalid pause: %v", err)
		}
		if ttl := client.PTTL(ctx, "pushpace:{pauses}:operators").Val(); ttl >= 0 {
			t.Errorf("pauses in force expire in %s", ttl)
		}
		unread := Pause{App: "unread"}
		client.HSet(ctx, "pushpace:{pauses}:operators", "odd", "odd", unread.Selector(), "odd")
		list(odd, later)
		end(unread, true)
		end(unread, false)
		if all, err := NewStore(client, "").Read(ctx); err != nil || !slices.Equal(all.Unread, []string{"odd"}) {
			t.Errorf("with unreadable entries: %q, %v", all.Unread, err)
		}
	})
}

// The operator of a pause's end stays readable while other pauses end and begin, until every worker has
// read the end. An ended pause does not count in the bound.
func TestOperatorOfEndedPauseIsKnown(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		ctx, store := t.Context(), NewStore(client, "")
		first, second := Pause{App: "first"}, Pause{App: "second"}
		for _, p := range []Pause{first, second} {
			must(t, store.Begin(ctx, &p))
		}
		before, err := store.Read(ctx)
		must(t, err)
		for _, p := range []Pause{first, second} {
			p.By = "ben"
			if there, err := store.End(ctx, p); err != nil || !there {
				t.Fatal(there, err)
			}
		}
		must(t, store.Begin(ctx, &Pause{App: "third"}))
		now, err := store.Read(ctx)
		must(t, err)
		_, over := now.Since(before)
		for p, by := range over {
			if by != "ben" {
				t.Errorf("the end of %s is by %q", p.App, by)
			}
		}
		if len(over) != 2 || len(now.Operators) != 1 {
			t.Errorf("%d are over, and %+v in force", len(over), now.Operators)
		}
	})
}

func TestOperatorPausesAreBounded(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	ctx, store := t.Context(), NewStore(client, "")
	for i := range maxOperators {
		field := (&Pause{App: fmt.Sprint(i)}).Selector()
		must(t, client.HSet(ctx, "pushpace:{pauses}:operators", field, "0 1 {}").Err())
	}
	if err := store.Begin(ctx, &Pause{App: "more"}); !errors.Is(err, ErrTooMany) {
		t.Errorf("one more: %v", err)
	}
	if err := store.Begin(ctx, &Pause{App: "7", Reason: "another"}); err != nil {
		t.Errorf("a change of an existing one: %v", err)
	}
}

func TestOperatorPausesAreValidated(t *testing.T) {
	t.Parallel()
	for field, h := range map[string]Pause{
		"/app":      {App: strings.Repeat("a", 129)},
		"/platform": {Platform: "pigeon"},
		"/category": {Category: "a\nb"},
		"/by":       {By: "\xff"},
		"/reason":   {Reason: strings.Repeat("a", 513)},
	} {
		var faults push.Faults
		if err := h.Validate(); !errors.As(err, &faults) || len(faults) != 1 || faults[0].Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := (&Pause{App: strings.Repeat("a", 128), Platform: push.APNs, Reason: strings.Repeat("é", 256)}).Validate(); err != nil {
		t.Error(err)
	}
}

func inForce(list ...Pause) *InForce {
	f := &InForce{Operators: list, bySelector: map[selector]Pause{}}
	for _, p := range list {
		f.bySelector[p.selector()] = p
	}
	return f
}

func TestOperatorPauseMatchesSelector(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		pause Pause
		want  bool
	}{
		"everything":                 {Pause{}, true},
		"the app":                    {Pause{App: "shop"}, true},
		"another app":                {Pause{App: "news"}, false},
		"the platform":               {Pause{Platform: push.APNs}, true},
		"the category":               {Pause{Category: "digest"}, true},
		"app, platform and category": {Pause{App: "shop", Platform: push.APNs, Category: "digest"}, true},
		"another platform":           {Pause{App: "shop", Platform: push.FCM, Category: "digest"}, false},
		"over":                       {Pause{App: "shop", Until: now, ends: now}, false},
		"not over yet":               {Pause{App: "shop", Until: now, ends: now.Add(time.Second)}, true},
	} {
		got := inForce(c.pause).On(now, "shop", push.APNs, "digest")
		if got != nil != c.want || got != nil && *got != c.pause {
			t.Errorf("%s: %+v", name, got)
		}
	}
	minute := Pause{App: "shop", Until: now.Add(time.Minute), ends: now.Add(time.Minute)}
	hour := Pause{Category: "digest", Until: now.Add(time.Hour), ends: now.Add(time.Hour)}
	if got := inForce(minute, hour).On(now, "shop", push.APNs, "digest"); got == nil || *got != hour {
		t.Errorf("of two, %+v", got)
	}
	if got := inForce(minute, hour, Pause{}).On(now, "shop", push.APNs, "digest"); got == nil || *got != (Pause{}) {
		t.Errorf("of three, %+v", got)
	}
}

// Of two delays of a provider the one that ends later is kept.
func TestLongerOfTwoProviderDelaysIsKept(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	ctx, store := t.Context(), NewStore(client, "")
	share := func(app string, length time.Duration, reason string, want bool) {
		t.Helper()
		if news, err := store.Share(ctx, Pause{App: app, Platform: push.FCM, Reason: reason, Until: time.Now().Add(length)}); err != nil || news != want {
			t.Errorf("pause of %s: %t, %v", app, news, err)
		}
	}
	list := func() []Pause {
		t.Helper()
		in, err := store.Read(ctx)
		must(t, err)
		return in.Providers
	}
	if got := list(); len(got) != 0 {
		t.Errorf("paused from the start: %+v", got)
	}
	share("shop/é x", time.Hour, "QUOTA_EXCEEDED", true)
	share("shop/é x", time.Minute, "short", false)
	share("news", time.Millisecond, "over", true)
	if ttl := client.PTTL(ctx, "pushpace:{pauses}:providers").Val(); ttl < 59*time.Minute || ttl > time.Hour {
		t.Errorf("the pauses live for %s, want as long as the longest", ttl)
	}
	eventually.Holds(t, "one is over", func() bool { return len(list()) == 1 })
	got := list()
	left := time.Until(got[0].Until)
	if p := got[0]; p.App != "shop/é x" || p.Platform != push.FCM || p.Reason != "QUOTA_EXCEEDED" || left < 59*time.Minute || left > time.Hour {
		t.Errorf("listed: %+v, for %s", p, left)
	}
	share("shop/é x", 2*time.Hour, "longer", true)
	share("news", time.Minute, "again", true)
	client.HSet(ctx, "pushpace:{pauses}:providers", "odd", "odd")
	client.HSet(ctx, "pushpace:{pauses}:resumed", "stray", "odd")
	all, err := store.Read(ctx)
	if err != nil || len(all.Providers) != 2 || all.Providers[1].Reason != "longer" || len(all.Tried) != 0 || !slices.Equal(all.Unread, []string{"odd", "stray"}) {
		t.Errorf("with unreadable entries: %+v, %v", all, err)
	}
	must(t, store.TryAgain(ctx, "ada", []string{"shop/é x/fcm"}))
	if in, err := store.Read(ctx); err != nil || len(in.Providers) != 1 || in.Providers[0].App != "news" || in.Tried["shop/é x/fcm"].By != "ada" {
		t.Errorf("after the resume: %+v, %v", in, err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
