package worker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
)

func TestHolds(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		ctx, holds := t.Context(), NewHolds(client, "")
		list := func(want ...Hold) {
			t.Helper()
			all, err := NewPauses(client, "").read(ctx)
			got := all.holds
			if err != nil || len(got) != len(want) {
				t.Fatalf("listed %+v, %v; want %+v", got, err, want)
			}
			for i, h := range got {
				if age := time.Since(h.At); age < -time.Second || age > time.Minute {
					t.Errorf("begun %s ago", age)
				}
				if left := h.left(time.Now()); h.Until.IsZero() && left != forever || !h.Until.IsZero() && (time.Until(h.Until)-left).Abs() > time.Second {
					t.Errorf("%+v is over in %s", h, left)
				}
				h.At, h.over = time.Time{}, time.Time{}
				if h != want[i] {
					t.Errorf("listed %+v, want %+v", h, want[i])
				}
			}
		}
		begin := func(h Hold, want error) {
			t.Helper()
			if err := holds.Begin(ctx, h); !errors.Is(err, want) {
				t.Errorf("begin %+v: %v, want %v", h, err, want)
			}
		}
		end := func(h Hold, want bool) {
			t.Helper()
			if there, err := holds.End(ctx, h); err != nil || there != want {
				t.Errorf("end %+v: %t, %v", h, there, err)
			}
		}
		list()
		odd := Hold{App: `a "b"/{c} é`, Platform: push.FCM, Category: "x y", By: "ada@host", Reason: "it says: 1 2 3"}
		begin(odd, nil)
		all := Hold{By: "ben"}
		begin(all, nil)
		over := Hold{App: "over"}
		client.HSet(ctx, "pushpace:{pauses}:operators", over.selector().field(), "1 1 {}")
		later := Hold{App: "later", Until: time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)}
		begin(later, nil)
		list(all, odd, later)
		odd.By, odd.Reason, odd.Until = "cyd", "", later.Until
		begin(odd, nil) // takes the place of the first
		list(all, odd, later)
		begin(Hold{Until: time.Now().Add(-time.Minute)}, ErrHoldOver)
		end(Hold{App: "shop"}, false)
		end(Hold{By: "anyone"}, true)
		end(all, false)
		list(odd, later)
		end(over, false)
		end(later, true)
		end(later, false)
		list(odd)
		begin(later, nil)
		list(odd, later)
		if _, err := holds.End(ctx, Hold{Platform: "pigeon"}); !errors.As(err, new(push.Faults)) {
			t.Errorf("end what cannot be: %v", err)
		}
		if ttl := client.PTTL(ctx, "pushpace:{pauses}:operators").Val(); ttl >= 0 {
			t.Errorf("what is in force is forgotten in %s", ttl)
		}
		unread := Hold{App: "unread"}
		client.HSet(ctx, "pushpace:{pauses}:operators", "odd", "odd", unread.selector().field(), "odd")
		list(odd, later)
		end(unread, true)
		end(unread, false)
		if all, err := NewPauses(client, "").read(ctx); err != nil || !slices.Equal(all.unread, []string{"odd"}) {
			t.Errorf("with what cannot be read: %q, %v", all.unread, err)
		}
	})
}

func TestHoldsAreBounded(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		ctx, holds := t.Context(), NewHolds(client, "")
		for i := range maxHolds {
			field := (&Hold{App: fmt.Sprint(i)}).selector().field()
			if err := client.HSet(ctx, "pushpace:{pauses}:operators", field, "0 1 {}").Err(); err != nil {
				t.Fatal(err)
			}
		}
		if err := holds.Begin(ctx, Hold{App: "more"}); !errors.Is(err, ErrTooManyHolds) {
			t.Errorf("one more: %v", err)
		}
		if err := holds.Begin(ctx, Hold{App: "7", Reason: "another"}); err != nil {
			t.Errorf("one that is there: %v", err)
		}
	})
}

func TestHoldsAreValidated(t *testing.T) {
	t.Parallel()
	for field, h := range map[string]Hold{
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
	if err := (&Hold{App: strings.Repeat("a", 128), Platform: push.APNs, Reason: strings.Repeat("é", 256)}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestHoldings(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		hold Hold
		want bool
	}{
		"everything":          {Hold{}, true},
		"the app":             {Hold{App: "shop"}, true},
		"another app":         {Hold{App: "news"}, false},
		"the platform":        {Hold{Platform: push.APNs}, true},
		"another platform":    {Hold{Platform: push.FCM}, false},
		"the category":        {Hold{Category: "digest"}, true},
		"another category":    {Hold{Category: "orders"}, false},
		"the app's category":  {Hold{App: "shop", Category: "digest"}, true},
		"all of it":           {Hold{App: "shop", Platform: push.APNs, Category: "digest"}, true},
		"a part does not fit": {Hold{App: "shop", Platform: push.FCM, Category: "digest"}, false},
		"over":                {Hold{App: "shop", Until: now, over: now}, false},
		"not over yet":        {Hold{App: "shop", Until: now, over: now.Add(time.Second)}, true},
	} {
		got := newHoldings([]Hold{c.hold}).on(now, "shop", push.APNs, "digest")
		if got != nil != c.want || got != nil && *got != c.hold {
			t.Errorf("%s: %+v", name, got)
		}
	}
	minute := Hold{App: "shop", Until: now.Add(time.Minute), over: now.Add(time.Minute)}
	hour := Hold{Category: "digest", Until: now.Add(time.Hour), over: now.Add(time.Hour)}
	if got := newHoldings([]Hold{minute, hour}).on(now, "shop", push.APNs, "digest"); got == nil || *got != hour {
		t.Errorf("of two, %+v", got)
	}
	if got := newHoldings([]Hold{minute, hour, {}}).on(now, "shop", push.APNs, "digest"); got == nil || *got != (Hold{}) {
		t.Errorf("of three, %+v", got)
	}
}

// What was taken and not woken is taken again.
func TestHeldJobs(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		ctx, holds := t.Context(), NewHolds(client, "")
		at := time.UnixMilli(1_795_219_200_123)
		first, second := heldJob{"pushpace-default", "a"}, heldJob{"pushpace-bulk", "b c"}
		field := (&Hold{App: "shop"}).selector().field()
		holding := func(want ...string) {
			t.Helper()
			all, err := NewPauses(client, "").read(ctx)
			if err != nil || !slices.Equal(all.holding, want) {
				t.Errorf("holding %q, %v; want %q", all.holding, err, want)
			}
		}
		keep := func(job heldJob, at time.Time) {
			t.Helper()
			if err := holds.keep(ctx, field, at, job); err != nil {
				t.Fatal(err)
			}
		}
		take := func(want ...heldJob) {
			t.Helper()
			if got, err := holds.take(ctx, field, 1); err != nil || !slices.Equal(got, want) {
				t.Errorf("taken %+v, %v; want %+v", got, err, want)
			}
		}
		again := func(want heldJob) {
			t.Helper()
			for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
				if got, err := holds.take(ctx, field, 1); err != nil || len(got) > 0 {
					if err != nil || got[0] != want {
						t.Errorf("taken %+v, %v; want %+v", got, err, want)
					}
					return
				}
			}
			t.Errorf("%+v is not taken again", want)
		}
		woken := func(jobs ...heldJob) {
			t.Helper()
			if err := holds.woken(ctx, field, jobs); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			keep(second, at.Add(time.Second))
			keep(first, at)
		}
		holding(field)
		take(first)
		woken(first)
		take(second)
		take()
		holding(field)
		again(second)
		keep(second, at) // it has stood back again since
		woken(second)
		holding(field)
		take(second)
		woken(second)
		holding()
		take()
		holding()
	})
}
