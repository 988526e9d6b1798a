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
func TestForetoldForAUser(t *testing.T) {
	t.Parallel()
	s := newStage(t, throttle.Policy{}, map[string]throttle.Policy{"news": {MinGap: time.Hour}, "orders": {MinGap: time.Hour}})
	s.arrive("shop", "ada", "news", 3)
	s.arrive("shop", "ada", "orders", 2)
	level := limits.Level{User: "ada", Category: "news"}
	told, err := s.previewer(s.limiter).Of(t.Context(), level, &limits.Override{Level: level, Policy: throttle.Policy{Exempt: true}, By: "ann"})
	must(t, err)
	free := 0
	for _, m := range told.Moves {
		if m.Free {
			free++
		}
	}
	if free != 2 || !told.Notifications.All() || !told.Users.All() {
		t.Errorf("%d of 2 are free: %+v", free, told)
	}
}

// A preview for a category counts the waiting notifications of all users.
func TestForetoldForMany(t *testing.T) {
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
	var told *operate.Preview
	eventually.Holds(t, "all users are looked at within the budget", func() bool { // on a machine that is busy
		told, err = s.previewer(s.limiter).Of(t.Context(), level, &change)
		must(t, err)
		return told.Users.All()
	})
	const waiting = each - 1 // the first has gone
	if told.Users != (operate.Looked{At: users + 1, Of: users + 1}) || told.Notifications != (operate.Looked{At: (users + 1) * waiting, Of: (users + 1) * waiting}) {
		t.Errorf("looked at %+v, %+v", told.Users, told.Notifications)
	}
	// each user has sent one already; two leave at once and the next two a minute later
	if told.Sooner != users*waiting || told.Later != 0 || told.AtOnce != 2*users || told.MostBefore > users+1 || told.MostAfter != 2*users || len(told.Moves) > 0 {
		t.Errorf("foretold %+v", told)
	}
	if told.Before.Source != limits.FromConfiguration || told.After.Source != limits.FromAppCategory || len(told.After.Policy.Rates) != 1 {
		t.Errorf("from %+v to %+v", told.Before, told.After)
	}
}

// Only one preview of many users runs at a time. A quota moves no notification.
func TestOneOfManyAtATime(t *testing.T) {
	t.Parallel()
	s := newStage(t, throttle.Policy{MinGap: time.Hour}, nil)
	s.arrive("shop", "ada", "", 3)
	waits, goes := make(chan struct{}), make(chan struct{})
	p := s.previewer(&held{s.limiter, waits, goes})
	var first sync.WaitGroup
	first.Go(func() {
		told, err := p.Of(t.Context(), limits.Level{}, &limits.Override{Policy: throttle.Policy{MinGap: time.Second}})
		if err != nil || told.Sooner != 2 || told.After.Source != limits.FromConfiguration || told.Before.Policy.MinGap == told.After.Policy.MinGap {
			t.Errorf("%+v, %v", told, err)
		}
	})
	<-waits
	if _, err := p.Of(t.Context(), limits.Level{App: "shop"}, nil); err != operate.ErrPreviewBusy {
		t.Errorf("beside it: %v", err)
	}
	if told, err := p.Of(t.Context(), limits.Level{App: "shop", User: "ada"}, nil); err != nil || len(told.Moves) != 2 || told.Sooner+told.Later > 0 {
		t.Errorf("one user: %+v, %v", told, err)
	}
	close(goes)
	first.Wait()
	rate := throttle.Policy{Rates: []throttle.Rate{{Count: 5, Period: time.Second}}}
	if told, err := p.Of(t.Context(), limits.Level{Quota: "q"}, &limits.Override{Policy: rate}); err != nil || len(told.After.Policy.Rates) != 1 || told.Users.Of != 0 || told.After.Source != limits.FromQuota || told.Before.Policy.MinGap != 0 {
		t.Errorf("a quota: %+v, %v", told, err)
	}
}

// held lists its users when the test releases them.
type held struct {
	*throttle.Redis
	waits, goes chan struct{}
}

func (h *held) Waiting(ctx context.Context, f func(app, user string) error) error {
	close(h.waits)
	<-h.goes
	return h.Redis.Waiting(ctx, f)
}

// A preview returns before its deadline, with the users read until then.
func TestWithinADeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p := &operate.Previewer{Limits: limits.New(throttle.Policy{}, nil), Lines: slow{}, Apps: []string{"shop"}}
		told, err := p.Of(ctx, limits.Level{App: "shop"}, &limits.Override{Policy: throttle.Policy{MinGap: time.Second}})
		if err != nil || ctx.Err() != nil || told.Users.Of != 1000 {
			t.Errorf("%+v, %v, %v", told, err, ctx.Err())
		}
	})
}

// slow lists many users, and is slow and fails to read each of them.
type slow struct{}

func (slow) DryRun(ctx context.Context, _ []throttle.Request) (throttle.Plan, error) {
	if err := clock.Sleep(ctx, 100*time.Millisecond); err != nil {
		return throttle.Plan{}, err
	}
	return throttle.Plan{}, errors.New("foreign")
}

func (slow) Waiting(_ context.Context, f func(app, user string) error) error {
	for i := range 1000 {
		if err := f("shop", fmt.Sprint(i)); err != nil {
			return err
		}
	}
	return nil
}
