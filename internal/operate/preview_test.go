package operate_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/clock"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/reschedule"
)

func TestMain(m *testing.M) {
	redistest.Parallel()
	goleak.VerifyTestMain(m, redistest.Dialing())
}

// A stage has users who wait on a real Redis, and can have a rescheduler.
type stage struct {
	t          *testing.T
	client     *redis.Client
	prefix     string
	limiter    *throttle.Redis
	overrides  *limits.Overrides
	general    throttle.Policy
	categories map[string]throttle.Policy
	// policies are those before any override.
	policies *limits.Policies
}

func newStage(t *testing.T, general throttle.Policy, categories map[string]throttle.Policy) *stage {
	t.Helper()
	s := &stage{t: t, client: redistest.Shared(t).Client(t), prefix: redistest.Prefix(), general: general, categories: categories, policies: limits.New(general, categories)}
	limiter, err := throttle.New(s.client, throttle.Options{Prefix: s.prefix, Timeout: redistest.Patience})
	must(t, err)
	s.limiter = limiter
	t.Cleanup(func() { _ = s.limiter.Close() })
	s.overrides = limits.NewOverrides(s.client, s.prefix, 0)
	return s
}

// arrive has so many notifications of the user come.
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

// reschedule follows the overrides as a worker does. It returns what waits until all lines of the
// user were placed again.
func (s *stage) reschedule() func(app, user string) {
	s.t.Helper()
	limiter := &telling{Planner: s.limiter, first: map[string]bool{}, done: map[string]bool{}}
	policies := limits.New(s.general, s.categories)
	_, err := s.overrides.Refresh(s.t.Context(), policies)
	must(s.t, err)
	gone := redis.NewClient(s.client.Options()) // those who wait have no jobs, and are not woken
	must(s.t, gone.Close())
	ctx, stop := context.WithCancel(context.Background())
	waking := control.New(gone, store.NewRecords(gone, s.prefix, 0), limiter, policies)
	var following sync.WaitGroup
	following.Go(func() {
		reschedule.Follow(ctx, reschedule.Config{
			Limits: policies, Overrides: s.overrides, Limiter: limiter, Control: waking,
			Waiting: s.limiter.Waiting, Apps: []string{"kiosk", "shop"}, Redis: s.client, Prefix: s.prefix, RedisLog: slog.New(slog.DiscardHandler),
		})
	})
	s.t.Cleanup(func() { stop(); following.Wait(); waking.Rest(context.Background()) })
	return func(app, user string) {
		s.t.Helper()
		eventually.Holds(s.t, user+" of "+app+" is given new slots", func() bool { return limiter.placed(app, user) })
	}
}

// slots are those of the user who wait, by ID.
func (s *stage) slots(app, user string) map[string]time.Time {
	s.t.Helper()
	timeline, err := s.limiter.Timeline(s.t.Context(), throttle.Request{App: app, User: user, Scopes: []throttle.Scope{{Name: throttle.General}}})
	must(s.t, err)
	all := map[string]time.Time{}
	for _, b := range timeline.Bookings {
		all[b.ID] = b.Slot
	}
	return all
}

// A telling limiter knows whose lines were all placed again: the one whose limit changed, and then
// the others that wait.
type telling struct {
	throttle.Planner
	mu          sync.Mutex
	first, done map[string]bool
}

func (l *telling) Replan(ctx context.Context, all []throttle.Request) (throttle.Placed, error) {
	placed, err := l.Planner.Replan(ctx, all)
	if err == nil {
		of := all[0].App + "/" + all[0].User
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(placed.Others) > 0 && !l.first[of] {
			l.first[of] = true
		} else {
			l.done[of] = true
		}
	}
	return placed, err
}

func (l *telling) placed(app, user string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done[app+"/"+user]
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func somePolicy(random *rand.Rand) throttle.Policy {
	gaps := []time.Duration{0, time.Second, 700 * time.Millisecond, 5 * time.Second, time.Minute}
	rates := []throttle.Rate{{Count: 1, Period: 2 * time.Second}, {Count: 3, Period: 10 * time.Second}, {Count: 10, Period: time.Minute}, {Count: 2, Period: time.Hour}, {Count: 7, Period: 24 * time.Hour}}
	p := throttle.Policy{MinGap: gaps[random.IntN(len(gaps))]}
	for _, r := range rates {
		if random.IntN(3) == 0 && r.Period > p.MinGap {
			p.Rates = append(p.Rates, r)
		}
	}
	if p.Unlimited() {
		p.MinGap = time.Second
	}
	return p
}

// Who is foretold to move for a user, and whom nothing limits any more, is as the workers make
// it when the override is then set, or removed. throttle's TestADryRunIsWhatAReplanDoes holds
// the instants, which count from the present.
func TestForetoldForAUser(t *testing.T) {
	t.Parallel()
	const users = 20
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	general, news := somePolicy(random), somePolicy(random)
	s := newStage(t, general, map[string]throttle.Policy{"news": news})
	var first, second []limits.Override
	var removed []limits.Level
	for i := range users {
		level := limits.Level{User: fmt.Sprint("user ", i), Category: []string{"", "news", "orders"}[random.IntN(3)]}
		if random.IntN(2) == 0 {
			level.App = "shop"
		}
		change := limits.Override{Level: level, Policy: somePolicy(random), By: "ann"}
		if level.Category != "" && random.IntN(4) == 0 {
			change.Policy = throttle.Policy{Exempt: true}
		}
		if random.IntN(3) == 0 {
			before := change
			before.Policy = throttle.Policy{MinGap: 3 * time.Second} // what it already is would be no change
			first = append(first, before)
			if random.IntN(2) == 0 {
				removed = append(removed, level)
				continue
			}
		}
		second = append(second, change)
	}
	const alone = "one who waits for one category alone, and is exempt then"
	second = append(second, limits.Override{Level: limits.Level{User: alone, Category: "news"}, Policy: throttle.Policy{Exempt: true}, By: "ann"})
	must(t, s.overrides.Import(t.Context(), first))
	_, err := s.overrides.Refresh(t.Context(), s.policies)
	must(t, err)
	rescheduled := s.reschedule()
	type change struct {
		at limits.Level
		to *limits.Override
	}
	var changes []change
	for i := range second {
		changes = append(changes, change{second[i].Level, &second[i]})
	}
	for _, level := range removed {
		changes = append(changes, change{level, nil})
	}
	for _, c := range changes {
		for _, category := range []string{"news", "", "orders"} {
			if c.at.User == alone && category != "news" {
				continue
			}
			s.arrive("shop", c.at.User, category, random.IntN(12))
		}
		s.arrive("kiosk", c.at.User, "news", random.IntN(4))
	}
	before, foretold := map[string]map[string]time.Time{}, map[string]*operate.Preview{}
	for _, c := range changes {
		before[c.at.User] = s.slots("shop", c.at.User)
		p := s.previewer(s.limiter)
		p.Apps = []string{"shop"}
		told, err := p.Of(t.Context(), c.at, c.to)
		must(t, err)
		foretold[c.at.User] = told
	}
	must(t, s.overrides.Import(t.Context(), second))
	for _, level := range removed {
		_, err := s.overrides.Unset(t.Context(), level, "ann")
		must(t, err)
	}
	moved := 0
	for _, c := range changes {
		told := foretold[c.at.User]
		rescheduled("shop", c.at.User)
		now := s.slots("shop", c.at.User)
		for _, m := range told.Moves {
			if was := before[c.at.User][m.ID]; !was.Equal(m.Before) {
				t.Errorf("%+v %s: before at %s, want %s", c.at, m.ID, m.Before, was)
			}
			if _, waits := now[m.ID]; waits == m.Free {
				t.Errorf("%+v to %+v: %s waits %v, and it was foretold as free %v", c.at, c.to, m.ID, waits, m.Free)
			}
			if !m.After.Equal(m.Before) {
				moved++
			}
			delete(now, m.ID)
		}
		for id, slot := range now { // on a slow machine: who is overdue by more than a second stays
			if slot.Equal(before[c.at.User][id]) && slot.Before(told.At.Add(-time.Second)) {
				delete(now, id)
			}
		}
		if len(now) > 0 || told.Sooner+told.Later > len(told.Moves) || !told.Notifications.All() || !told.Users.All() {
			t.Errorf("%+v: not foretold: %v, %+v", c.at, now, told)
		}
		if t.Failed() {
			t.Fatalf("general %+v, news %+v", general, news)
		}
	}
	if moved == 0 {
		t.Error("nothing moves")
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
	// of each user one is there already, two go at once and the next two a minute later
	if told.Sooner != users*waiting || told.Later != 0 || told.AtOnce != 2*users || told.MostBefore > users+1 || told.MostAfter != 2*users || len(told.Moves) > 0 {
		t.Errorf("foretold %+v", told)
	}
	if told.Before.Source != limits.FromConfiguration || told.After.Source != limits.FromAppCategory || len(told.After.Policy.Rates) != 1 {
		t.Errorf("from %+v to %+v", told.Before, told.After)
	}
}

// Nobody looks at many users beside another, and a quota moves nobody.
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

// held is lines whose users are told when somebody says so.
type held struct {
	*throttle.Redis
	waits, goes chan struct{}
}

func (h *held) Waiting(ctx context.Context, f func(app, user string) error) error {
	close(h.waits)
	<-h.goes
	return h.Redis.Waiting(ctx, f)
}

// Whoever asks with a deadline has an answer before that, of as many as there was time for.
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

// slow is lines of many users, each of which takes long, and cannot be read.
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
