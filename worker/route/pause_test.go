package route

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/pause"
)

func TestPauseFor(t *testing.T) {
	t.Parallel()
	retry := func(concerns providers.Concern, after time.Duration) providers.Outcome {
		return providers.Outcome{Kind: providers.Retry, Concerns: concerns, RetryAfter: after}
	}
	for name, c := range map[string]struct {
		o     providers.Outcome
		level int
		want  time.Duration
	}{
		"misconfigured":             {badKey, 0, 30 * time.Second},
		"misconfigured again":       {badKey, 1, time.Minute},
		"misconfigured for long":    {badKey, 1000, 5 * time.Minute},
		"quota":                     {retry(providers.ConcernsApp, time.Minute), 0, time.Minute},
		"quota after misconfigured": {retry(providers.ConcernsApp, time.Minute), 5, time.Minute},
		"token updates":             {retry(providers.ConcernsCredential, 20*time.Minute), 0, 20 * time.Minute},
		"a new connection":          {retry(providers.ConcernsCredential, time.Second), 0, 0},
		"every device":              {retry(providers.ConcernsToken, time.Minute), 0, time.Minute},
		"a failure":                 {retry(providers.ConcernsProvider, 0), 0, 0},
		"a failure, FCM's least":    {retry(providers.ConcernsProvider, 10*time.Second), 0, 0},
		"a failure with a delay":    {retry(providers.ConcernsProvider, 30*time.Second), 0, 30 * time.Second},
	} {
		if got := pauseFor(c.o, c.level, 30*time.Second); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// The misconfiguration's pauses double from one to the next, whichever worker
// begins them, and start again after a push was taken.
func TestPausesOfARoute(t *testing.T) {
	t.Parallel()
	misconfigured := providers.Outcome{Kind: providers.Misconfigured, Reason: "BadTopic"}
	quota := providers.Outcome{Kind: providers.Retry, Concerns: providers.ConcernsApp, RetryAfter: time.Hour}
	now := time.Unix(1_795_219_200, 0)
	r := &Route{App: "shop", Platform: push.APNs}
	begin := func(o providers.Outcome, want bool) {
		t.Helper()
		if _, begins := r.begin(now, o, 30*time.Second, ""); begins != want {
			t.Errorf("begins: %t", begins)
		}
	}
	left := func(want time.Duration) {
		t.Helper()
		if got := r.pauseLeft(now); got != want {
			t.Errorf("left %s, want %s", got, want)
		}
	}
	begin(misconfigured, true)
	left(30 * time.Second)
	now = now.Add(10 * time.Second)
	begin(misconfigured, false) // it was under way
	r.worked(now)
	left(20 * time.Second) // the push was under way
	now = now.Add(20 * time.Second)
	left(0)
	begin(misconfigured, true)
	left(time.Minute)
	begin(quota, true) // is longer
	left(time.Hour)
	begin(quota, false)
	now = now.Add(100 * time.Millisecond)
	begin(quota, false) // which comes with the others

	now = now.Add(2 * time.Hour)
	shared := pause.Pause{App: "shop", Platform: push.APNs, Reason: "BadTopic", Until: now.Add(time.Minute), Level: 4}
	r.agreed(r.pause.Pause)
	r.pause.since = now
	if news := r.apply(shared, true, now); !news || r.apply(shared, true, now) {
		t.Error("another worker's pause is news once")
	}
	left(time.Minute)
	now = now.Add(2 * time.Minute)
	begin(misconfigured, true)
	left(longestPause)
	if r.apply(pause.Pause{}, false, now); r.pauseLeft(now) == 0 {
		t.Error("a pause that others do not know of yet ends because they do not")
	}
	r.agreed(r.pause.Pause)
	r.pause.since = now
	if r.apply(pause.Pause{}, false, now.Add(-time.Second)); r.pauseLeft(now) == 0 {
		t.Error("a pause ends by a list that is older")
	}
	r.apply(pause.Pause{}, false, now.Add(time.Second))
	left(0)
	r.worked(now)
	begin(misconfigured, true)
	left(30 * time.Second) // a push was taken
	r.apply(pause.Pause{Reason: "operator"}, true, now.Add(time.Hour))
	now = now.Add(1000 * time.Hour)
	left(10 * 365 * 24 * time.Hour) // it has no end
}

// routesOf are the routes of a worker of that host, whose clock is off by so much.
func routesOf(client redis.UniversalClient, prefix, host string, senders map[push.Platform]providers.Sender, clock time.Duration) *Routes {
	return New(Config{
		Senders: map[string]map[push.Platform]providers.Sender{"shop": senders}, Concurrency: 1, Pauses: pause.NewStore(client, prefix), Observer: unobserved{},
		Log: slog.New(slog.DiscardHandler), RedisLog: slog.New(slog.DiscardHandler), ClockOffset: func() time.Duration { return clock }, Host: host,
	})
}

type unobserved struct{}

func (unobserved) Breaker(string, push.Platform, bool)            {}
func (unobserved) Paused(string, push.Platform, providers.Reason) {}

// read takes over what is in force.
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

// learn takes in so many outcomes of different tokens, and returns the last as it is to be
// acted on.
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

// What one worker learns, another one knows when it reads.
func TestEveryWorkerLearnsOfAPause(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	worker := func() (*Routes, *Route) {
		rs := routesOf(client, "", "", map[push.Platform]providers.Sender{push.APNs: nil, push.FCM: nil}, 0)
		return rs, rs.Of("shop")[push.APNs]
	}
	one, its := worker()
	other, others := worker()
	began := time.Now()
	its.proven = true
	one.learn(t, its, deadToken, lostLeast)
	if its.Left(time.Now()) == 0 {
		t.Error("the worker that learns of a pause does not keep it at once")
	}
	other.read(t)
	left := others.pauseLeft(time.Now())
	if least := 29*time.Second - time.Since(began); left > 30*time.Second || left < least {
		t.Errorf("the other worker pauses for %s", left)
	}
	if other.Of("shop")[push.FCM].Left(time.Now()) != 0 {
		t.Error("the other platform is paused too")
	}
	if o := other.learn(t, others, deadToken, 1); o.Kind != providers.Misconfigured || o.Reason != providers.DeadTokenSpike || !errors.Is(o.Err, deadToken.Err) {
		t.Errorf("the other worker goes on dropping tokens: %+v", o)
	}
	if !others.evidence.suspects(subjectOf(tokenOf(lostLeast-1), "")) {
		t.Error("the other worker may probe with a token that the spike comes from")
	}
	if d := others.breaker.left(time.Now()); d == 0 {
		t.Error("the other worker does not probe when the pause is over")
	}
}
