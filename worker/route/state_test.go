package route

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/pause"
)

func after(o providers.Outcome, wait time.Duration) providers.Outcome {
	o.RetryAfter = wait
	return o
}

func TestOutcomeDecidesLengthOfClosing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o        providers.Outcome
		refusals int
		want     time.Duration
	}{
		"refused":                {badKey, 0, 30 * time.Second},
		"refused for long":       {badKey, 1000, 5 * time.Minute},
		"quota":                  {after(overQuota, time.Minute), 0, time.Minute},
		"quota after refusals":   {after(overQuota, time.Minute), 5, time.Minute},
		"token updates":          {after(tokenUpdates, 20*time.Minute), 0, 20 * time.Minute},
		"a new connection":       {after(tokenUpdates, time.Second), 0, 0},
		"every device":           {after(busyDevice, time.Minute), 0, time.Minute},
		"a failure":              {serverError, 0, 0},
		"a failure, FCM's least": {after(serverError, 10*time.Second), 0, 0},
		"a failure with a delay": {after(serverError, 30*time.Second), 0, 30 * time.Second},
	} {
		if got := closedFor(&c.o, c.refusals, 30*time.Second); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// push sends one push with that lesson, and reports whether the route allowed it.
func (r *Route) push(s shows) bool {
	done, ok := r.Allow(push.Target{Platform: push.FCM, Token: "another"})
	if ok {
		done(Lesson{shows: s})
	}
	return ok
}

// A stated is a route with helpers for tests of the route's state.
type stated struct {
	*Route
	t *testing.T
}

// is expects the state, and how long the route is closed.
func (r *stated) is(what string, want State, left time.Duration) {
	r.t.Helper()
	now := time.Now()
	if k, got := r.state.view(now), r.Left(now); k.state != want || got != left || r.Trying(now) != (want == Trying && left == 0) {
		r.t.Errorf("%s: %s for %s, trying: %t; want %s for %s", what, k.state, got, r.Trying(now), want, left)
	}
}

// fails applies an outcome that counts against the route, and reports whether it closes it anew.
func (r *stated) fails(o providers.Outcome) bool {
	_, news := r.state.fail(time.Now(), &o, 30*time.Second)
	return news
}

// inState runs the test with an open route.
func inState(t *testing.T, test func(r *stated)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &stated{Route: &Route{App: "shop", Platform: push.FCM}, t: t}
		r.state.openFor = 5 * time.Second
		test(r)
	})
}

func TestTroubleClosesRoute(t *testing.T) {
	inState(t, func(r *stated) {
		old, _ := r.Allow(push.Target{}) // before the trouble
		for range 20 {
			r.push(fails)
		}
		r.is("failures that are no trouble of the route", Open, 0)
		r.fails(serverError)
		r.is("trouble", Closed, 5*time.Second)
		if r.push(works) {
			t.Error("a closed route allows a push")
		}
		time.Sleep(2 * time.Second)
		r.fails(serverError)
		old(Lesson{shows: works})
		r.is("after answers to pushes from before", Closed, 3*time.Second)

		time.Sleep(3 * time.Second)
		r.is("its instant has come", Trying, 0)
		probe, ok := r.Allow(push.Target{})
		r.is("while a push is under way", Trying, 5*time.Second)
		if !ok || r.push(works) {
			t.Error("want one push, and no more")
		}
		r.fails(serverError)
		r.is("after another failure from before", Trying, 5*time.Second)
		probe(Lesson{shows: fails})
		r.is("after a push that failed", Closed, 5*time.Second)

		time.Sleep(5 * time.Second)
		r.push(unclear)
		r.is("after a push that showed nothing", Trying, 0)
		r.push(works)
		r.is("after a push that worked", Open, 0)
	})
}

// Each refusal closes a route twice as long as the previous refusal, until a push works.
func TestRefusalsDoubleClosing(t *testing.T) {
	inState(t, func(r *stated) {
		for _, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, OperatorRecheck, OperatorRecheck} {
			probe, ok := r.Allow(push.Target{})
			if !ok || !r.fails(badKey) || r.fails(badKey) || r.fails(thirdParty) { // the others come together
				t.Error("a refusal does not close the route exactly once")
			}
			probe(Lesson{shows: fails})
			r.is("refused", Closed, want)
			time.Sleep(want)
			r.is("its instant has come", Trying, 0)
		}
		r.push(works)
		r.fails(badKey)
		r.is("refused after a push that worked", Closed, 30*time.Second)
		r.state.renew("another")
		r.is("other credentials", Trying, 0)
		r.fails(badKey)
		r.is("they are refused as well", Closed, 30*time.Second)
		r.state.resume()
		r.is("an operator has it tried again", Trying, 0)
		r.push(works)
		r.is("after a push that worked", Open, 0)
		r.state.renew("a third")
		r.is("other credentials of an open route", Open, 0)
	})
}

// Of two closings the one that ends later applies.
func TestLongerDelayApplies(t *testing.T) {
	inState(t, func(r *stated) {
		hour := after(overQuota, time.Hour)
		r.fails(serverError)
		if !r.fails(hour) || r.fails(hour) || r.fails(after(overQuota, time.Minute)) || r.fails(badKey) {
			t.Error("a longer delay does not close the route exactly once")
		}
		time.Sleep(leastDelay / 2)
		if r.fails(hour) {
			t.Error("a simultaneous answer closes the route again")
		}
		r.is("over quota", Closed, time.Hour-leastDelay/2)
		r.state.renew("another")
		r.is("other credentials, which the delay does not concern", Closed, time.Hour-leastDelay/2)
		shared := func(left time.Duration) bool {
			return r.state.follow(time.Now(), nil, closing{time.Now().Add(left), "QUOTA_EXCEEDED", "", true})
		}
		shared(time.Minute)
		r.is("another worker shares a shorter one", Closed, time.Hour-leastDelay/2)
		shared(2 * time.Hour)
		r.is("another worker shares a longer one", Closed, 2*time.Hour)
		r.state.resume()
		r.state.follow(time.Now(), nil, closing{})
		r.is("an operator has it tried again", Trying, 0)
		probe, _ := r.Allow(push.Target{})
		shared(time.Minute)
		probe(Lesson{shows: works})
		r.is("a delay that was shared while the push was under way", Closed, time.Minute)
		time.Sleep(time.Minute)
		r.push(works)
		if !shared(time.Minute) || shared(time.Minute) {
			t.Error("another worker's delay does not close the route exactly once")
		}
	})
}

// An operator's pause closes a route without a change of its state.
func TestOperatorPauseKeepsState(t *testing.T) {
	inState(t, func(r *stated) {
		p := &pause.Pause{Until: time.Now().Add(time.Minute)}
		r.state.follow(time.Now(), p, closing{})
		r.is("paused", Open, time.Minute)
		if r.push(works) {
			t.Error("a paused route allows a push")
		}
		r.fails(serverError)
		time.Sleep(10 * time.Second)
		if r.is("trouble meanwhile", Trying, 50*time.Second); r.push(works) {
			t.Error("a paused route is probed")
		}
		time.Sleep(50 * time.Second)
		r.is("the pause is over", Trying, 0)
		r.state.follow(time.Now(), &pause.Pause{}, closing{})
		r.is("paused without an end", Trying, 10*365*24*time.Hour)
		r.state.follow(time.Now(), nil, closing{})
		r.is("resumed", Trying, 0)
	})
}

// A token that helped to close the route is no probe while other tokens may be probes.
func TestSuspectTokenIsNotUsedAsProbe(t *testing.T) {
	inState(t, func(r *stated) {
		now := time.Now()
		for i := range maxStreak {
			r.evidence.take(now, &serverError, failed, subjectOf(tokenOf(i%2), ""), true)
		}
		r.fails(serverError)
		time.Sleep(5 * time.Second)
		if _, ok := r.Allow(tokenOf(0)); ok {
			t.Error("a suspect token is a probe")
		}
		probe, ok := r.Allow(tokenOf(2))
		if !ok {
			t.Fatal("another token is no probe")
		}
		probe(Lesson{})
		time.Sleep(5 * time.Second)
		if _, ok := r.Allow(tokenOf(0)); !ok {
			t.Error("the suspect token is no probe without another token")
		}
	})
}

// routesOf returns the routes of a worker with these senders.
func routesOf(client redis.UniversalClient, prefix string, senders map[push.Platform]providers.Sender) *Routes {
	return New(Config{
		Senders: map[string]map[push.Platform]providers.Sender{"shop": senders}, Concurrency: 1, Pauses: pause.NewStore(client, prefix), Observer: unobserved{},
		Log: slog.New(slog.DiscardHandler), RedisLog: slog.New(slog.DiscardHandler),
	})
}

type unobserved struct{}

func (unobserved) Closed(string, push.Platform, providers.Reason) {}

// read applies the pauses in force.
func (rs *Routes) read(t *testing.T) {
	t.Helper()
	asked := time.Now()
	rs.Renew()
	in, err := rs.Pauses.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rs.Apply(t.Context(), in, asked)
}

// learn adds n outcomes of different tokens, and returns the last outcome to act on.
func (rs *Routes) learn(t *testing.T, r *Route, o providers.Outcome, n int) (last providers.Outcome) {
	t.Helper()
	for i := range n {
		last, _ = rs.Learn(t.Context(), r, tokenOf(i), o, r.Credential())
	}
	return last
}

func tokenOf(i int) push.Target {
	return push.Target{Platform: push.FCM, Token: fmt.Sprint("token-", i)}
}

// All workers keep to a provider's delay until an operator resumes the route. Each worker detects
// trouble and refusals by itself.
func TestWorkersShareDelays(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	for name, c := range map[string]struct {
		o      providers.Outcome
		shared bool
	}{
		"a quota":             {after(overQuota, time.Minute), true},
		"a provider's delay":  {after(serverError, time.Minute), true},
		"busy devices":        {after(busyDevice, time.Minute), true},
		"a refused key":       {badKey, false},
		"a refused topic":     {thirdParty, false},
		"too many tokens":     {after(tokenUpdates, time.Minute), false},
		"dead tokens":         {deadToken, false},
		"a provider's outage": {serverError, false},
	} {
		t.Run(name, func(t *testing.T) {
			worker := func() (*Routes, *Route) {
				rs := routesOf(client, t.Name(), map[push.Platform]providers.Sender{push.APNs: identified("a"), push.FCM: nil})
				rs.read(t)
				return rs, rs.Of("shop")[push.APNs]
			}
			one, its := worker()
			other, others := worker()
			one.learn(t, its, c.o, minLostAnswers)
			if its.Left(time.Now()) == 0 {
				t.Error("the worker itself does not close the route at once")
			}
			other.read(t)
			if left := others.Left(time.Now()); (left > 0) != c.shared || left > time.Minute {
				t.Errorf("the others close the route for %s", left)
			}
			if other.Of("shop")[push.FCM].Left(time.Now()) != 0 {
				t.Error("the other platform is closed too")
			}
			if !c.shared {
				return
			}
			if s := others.status(time.Now(), others.state.view(time.Now())); s.Pause != c.o.Reason || s.Until.IsZero() || s.Trouble != (Trouble{}) {
				t.Errorf("%+v", s)
			}
			if err := one.Pauses.TryAgain(t.Context(), "ada", []string{its.Name()}); err != nil {
				t.Fatal(err)
			}
			for _, rs := range []*Routes{one, other} {
				rs.read(t)
				if r := rs.Of("shop")[push.APNs]; !r.Trying(time.Now()) {
					t.Errorf("after an operator's resume: %+v", r.state.view(time.Now()))
				}
			}
		})
	}
}

// The first answer of the same class confirms another worker's delay.
func TestAnswerConfirmsSharedDelay(t *testing.T) {
	t.Parallel()
	rs := routesOf(redistest.One(t), "", map[push.Platform]providers.Sender{push.FCM: nil})
	r := rs.Of("shop")[push.FCM]
	now := time.Now()
	rs.Apply(t.Context(), &pause.InForce{Providers: []pause.Pause{{App: "shop", Platform: push.FCM, Reason: "QUOTA_EXCEEDED", Until: now.Add(50 * time.Millisecond)}}}, now)
	time.Sleep(50 * time.Millisecond)
	done, ok := r.Allow(tokenOf(0))
	if !ok {
		t.Fatal("no probe is allowed")
	}
	_, lesson := rs.Learn(t.Context(), r, tokenOf(0), after(overQuota, time.Hour), "")
	if done(lesson); !lesson.Trouble || r.Left(time.Now()) < 59*time.Minute {
		t.Errorf("%+v, closed for %s", lesson, r.Left(time.Now()))
	}
}
