package operate_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/clock"
)

func TestMain(m *testing.M) {
	redistest.Parallel()
	goleak.VerifyTestMain(m, redistest.Dialing())
}

// A stage has waiting users on a real Redis.
type stage struct {
	t         *testing.T
	limiter   *throttle.Redis
	overrides *limits.Overrides
	policies  *limits.Policies // before any override
}

func newStage(t *testing.T, general throttle.Policy, categories map[string]throttle.Policy) *stage {
	t.Helper()
	client, prefix := redistest.Shared(t).Client(t), redistest.Prefix()
	limiter, err := throttle.New(client, throttle.Options{Prefix: prefix, Timeout: redistest.Patience})
	must(t, err)
	t.Cleanup(func() { _ = limiter.Close() })
	return &stage{t, limiter, limits.NewOverrides(client, prefix, 0), limits.New(general, categories)}
}

// arrive submits n notifications of the user to the limiter.
func (s *stage) arrive(app, user, category string, n int) {
	s.t.Helper()
	for i := range n {
		_, err := s.limiter.Acquire(s.t.Context(), throttle.Request{
			App: app, User: user, ID: fmt.Sprint(category, i), Category: category, Scopes: s.policies.Scopes(app, user, category), Horizon: 240 * time.Hour,
		})
		must(s.t, err)
	}
}

func (s *stage) previewer(lines operate.Lines) *operate.Previewer {
	return &operate.Previewer{Limits: s.policies, Lines: lines, Apps: []string{"kiosk", "shop"}}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A notification that nothing limits any more is previewed as free.
func TestPreviewShowsUnlimitedNotificationAsFree(t *testing.T) {
	t.Parallel()
	s := newStage(t, throttle.Policy{}, map[string]throttle.Policy{"news": {MinGap: time.Hour}, "orders": {MinGap: time.Hour}})
	s.arrive("shop", "ada", "news", 3)
	s.arrive("shop", "ada", "orders", 2)
	level := limits.Level{User: "ada", Category: "news"}
	got, err := s.previewer(s.limiter).Of(t.Context(), level, &limits.Override{Level: level, Policy: throttle.Policy{Exempt: true}, By: "ann"})
	must(t, err)
	free := 0
	for _, m := range got.Moves {
		if m.Free {
			free++
		}
	}
	if free != 2 || !got.Notifications.All() || !got.Users.All() {
		t.Errorf("%d of 2 are free: %+v", free, got)
	}
}

// A preview for a category counts the waiting notifications of all users.
func TestPreviewOfCategoryCountsAllUsers(t *testing.T) {
	t.Parallel()
	const users, each = 12, 5
	hourly := throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: time.Hour}}}
	s := newStage(t, throttle.Policy{}, map[string]throttle.Policy{"news": hourly})
	level := limits.Level{App: "shop", Category: "news"}
	must(t, s.overrides.Set(t.Context(), limits.Override{Level: limits.Level{User: "own", Category: "news"}, Policy: throttle.Policy{MinGap: 2 * time.Hour}, By: "ann"}))
	_, err := s.overrides.Refresh(t.Context(), s.policies)
	must(t, err)
	for i := range users {
		s.arrive("shop", fmt.Sprint("u", i), "news", each)
		s.arrive("kiosk", fmt.Sprint("u", i), "news", 2)
		s.arrive("shop", fmt.Sprint("u", i), "orders", 2)
	}
	s.arrive("shop", "own", "news", each)
	change := limits.Override{Level: level, Policy: throttle.Policy{Rates: []throttle.Rate{{Count: 3, Period: time.Minute}}}, By: "ann"}
	var got *operate.Preview
	eventually.Holds(t, "all users are looked at within the budget", func() bool { // on a machine that is busy
		got, err = s.previewer(s.limiter).Of(t.Context(), level, &change)
		must(t, err)
		return got.Users.All()
	})
	const waiting = each - 1 // the first notification was sent
	if got.Users != (operate.Looked{At: users + 1, Of: users + 1}) || got.Notifications != (operate.Looked{At: (users + 1) * waiting, Of: (users + 1) * waiting}) {
		t.Errorf("looked at %+v, %+v", got.Users, got.Notifications)
	}
	// each user was sent one notification; two leave at once and the next two a minute later
	if got.Sooner != users*waiting || got.Later != 0 || got.AtOnce != 2*users || got.MostBefore > users+1 || got.MostAfter != 2*users || len(got.Moves) > 0 {
		t.Errorf("preview %+v", got)
	}
	if got.Before.Source != limits.FromConfiguration || got.After.Source != limits.FromAppCategory || len(got.After.Policy.Rates) != 1 {
		t.Errorf("from %+v to %+v", got.Before, got.After)
	}
}

// Only one preview of many users runs at a time. A quota moves no notification.
func TestConcurrentPreviewIsBusy(t *testing.T) {
	t.Parallel()
	s := newStage(t, throttle.Policy{MinGap: time.Hour}, nil)
	s.arrive("shop", "ada", "", 3)
	waits, goes := make(chan struct{}), make(chan struct{})
	p := s.previewer(&blockedLines{s.limiter, waits, goes})
	var first sync.WaitGroup
	first.Go(func() {
		got, err := p.Of(t.Context(), limits.Level{}, &limits.Override{Policy: throttle.Policy{MinGap: time.Second}})
		if err != nil || got.Sooner != 2 || got.After.Source != limits.FromConfiguration || got.Before.Policy.MinGap == got.After.Policy.MinGap {
			t.Errorf("%+v, %v", got, err)
		}
	})
	<-waits
	if _, err := p.Of(t.Context(), limits.Level{App: "shop"}, nil); err != operate.ErrPreviewBusy {
		t.Errorf("beside it: %v", err)
	}
	if got, err := p.Of(t.Context(), limits.Level{App: "shop", User: "ada"}, nil); err != nil || len(got.Moves) != 2 || got.Sooner+got.Later > 0 {
		t.Errorf("one user: %+v, %v", got, err)
	}
	close(goes)
	first.Wait()
	rate := throttle.Policy{Rates: []throttle.Rate{{Count: 5, Period: time.Second}}}
	if got, err := p.Of(t.Context(), limits.Level{Quota: "q"}, &limits.Override{Policy: rate}); err != nil || len(got.After.Policy.Rates) != 1 || got.Users.Of != 0 || got.After.Source != limits.FromQuota || got.Before.Policy.MinGap != 0 {
		t.Errorf("a quota: %+v, %v", got, err)
	}
}

// blockedLines lists its users when the test releases them.
type blockedLines struct {
	*throttle.Redis
	waits, goes chan struct{}
}

func (h *blockedLines) Waiting(ctx context.Context, f func(app, user string) error) error {
	close(h.waits)
	<-h.goes
	return h.Redis.Waiting(ctx, f)
}

// A preview returns before its deadline, with the users read until then.
func TestPreviewKeepsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p := &operate.Previewer{Limits: limits.New(throttle.Policy{}, nil), Lines: slowLines{}, Apps: []string{"shop"}}
		got, err := p.Of(ctx, limits.Level{App: "shop"}, &limits.Override{Policy: throttle.Policy{MinGap: time.Second}})
		if err != nil || ctx.Err() != nil || got.Users.Of != 1000 {
			t.Errorf("%+v, %v, %v", got, err, ctx.Err())
		}
	})
}

// slowLines lists many users, and is slow and fails to read each of them.
type slowLines struct{}

func (slowLines) DryRun(ctx context.Context, _ []throttle.Request) (throttle.Plan, error) {
	if err := clock.Sleep(ctx, 100*time.Millisecond); err != nil {
		return throttle.Plan{}, err
	}
	return throttle.Plan{}, errors.New("foreign")
}

func (slowLines) Waiting(_ context.Context, f func(app, user string) error) error {
	for i := range 1000 {
		if err := f("shop", fmt.Sprint(i)); err != nil {
			return err
		}
	}
	return nil
}
