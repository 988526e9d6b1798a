package worker

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

func TestPauseFor(t *testing.T) {
	t.Parallel()
	misconfigured := providers.Outcome{Kind: providers.Misconfigured, Concerns: providers.ConcernsApp}
	retry := func(concerns providers.Concern, after time.Duration) providers.Outcome {
		return providers.Outcome{Kind: providers.Retry, Concerns: concerns, RetryAfter: after}
	}
	for name, c := range map[string]struct {
		o     providers.Outcome
		level int
		want  time.Duration
	}{
		"misconfigured":             {misconfigured, 0, 30 * time.Second},
		"misconfigured again":       {misconfigured, 1, time.Minute},
		"misconfigured for long":    {misconfigured, 1000, 5 * time.Minute},
		"quota":                     {retry(providers.ConcernsApp, time.Minute), 0, time.Minute},
		"quota after misconfigured": {retry(providers.ConcernsApp, time.Minute), 5, time.Minute},
		"token updates":             {retry(providers.ConcernsCredential, 20*time.Minute), 0, 20 * time.Minute},
		"a new connection":          {retry(providers.ConcernsCredential, time.Second), 0, 0},
		"one device":                {retry(providers.ConcernsToken, time.Minute), 0, 0},
		"a failure":                 {retry(providers.ConcernsProvider, 0), 0, 0},
		"a failure, FCM's least":    {retry(providers.ConcernsProvider, 10*time.Second), 0, 0},
		"a failure with a delay":    {retry(providers.ConcernsProvider, 30*time.Second), 0, 30 * time.Second},
		"delivered":                 {works, 0, 0},
		"dead token":                {providers.Outcome{Kind: providers.DeadToken}, 0, 0},
	} {
		if got := pauseFor(c.o, c.level, 30*time.Second); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestComebacks(t *testing.T) {
	t.Parallel()
	var c comebacks
	now := time.Unix(1_795_219_200, 0)
	for _, step := range []struct {
		queue string
		left  time.Duration
		want  time.Duration
	}{
		{"bulk", longestHold, longestHold},
		{"bulk", longestHold, longestHold + comebackGap},
		{"bulk", time.Second, longestHold + 2*comebackGap}, // behind the others
		{"critical", time.Second, time.Second},
		{"critical", 0, time.Second + comebackGap},
	} {
		if got := c.next(step.queue, now, step.left); got != step.want {
			t.Errorf("%+v: %s", step, got)
		}
	}
	now = now.Add(time.Hour)
	if got := c.next("bulk", now, 0); got != 0 {
		t.Errorf("when nobody waits: %s", got)
	}
}

// The misconfiguration's pauses double from one to the next, whichever worker
// begins them, and start again after a push was taken.
func TestPausesOfARoute(t *testing.T) {
	t.Parallel()
	misconfigured := providers.Outcome{Kind: providers.Misconfigured, Reason: "BadTopic"}
	quota := providers.Outcome{Kind: providers.Retry, Concerns: providers.ConcernsApp, RetryAfter: time.Hour}
	now := time.Unix(1_795_219_200, 0)
	r := &route{app: "shop", platform: push.APNs}
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
	shared := Pause{App: "shop", Platform: push.APNs, Reason: "BadTopic", Until: now.Add(time.Minute), level: 4}
	r.told(r.pause.Pause)
	r.pause.since = now
	if news := r.keep(shared, true, now); !news || r.keep(shared, true, now) {
		t.Error("another worker's pause is news once")
	}
	left(time.Minute)
	now = now.Add(2 * time.Minute)
	begin(misconfigured, true)
	left(longestPause)
	if r.keep(Pause{}, false, now); r.pauseLeft(now) == 0 {
		t.Error("a pause that others do not know of yet ends because they do not")
	}
	r.told(r.pause.Pause)
	r.pause.since = now
	if r.keep(Pause{}, false, now.Add(-time.Second)); r.pauseLeft(now) == 0 {
		t.Error("a pause ends by a list that is older")
	}
	r.keep(Pause{}, false, now.Add(time.Second))
	left(0)
	r.worked(now)
	begin(misconfigured, true)
	left(30 * time.Second) // a push was taken
	r.keep(Pause{Reason: "operator"}, true, now.Add(time.Hour))
	now = now.Add(1000 * time.Hour)
	left(longestHold) // it has no end
}

func TestPauses(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		ctx, pauses := t.Context(), NewPauses(client, "")
		begin := func(app string, length time.Duration, reason providers.Reason, want begun) {
			t.Helper()
			p := Pause{App: app, Platform: push.FCM, Reason: reason, level: 2}
			if length > 0 {
				p.Until = time.Now().Add(length)
			}
			if set, err := pauses.begin(ctx, p); err != nil || set != want {
				t.Errorf("pause of %s: %d, %v", app, set, err)
			}
		}
		list := func() []Pause {
			t.Helper()
			got, err := pauses.List(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		if got := list(); len(got) != 0 {
			t.Errorf("paused from the start: %+v", got)
		}
		begin("shop/é x", time.Hour, "QUOTA_EXCEEDED", shares)
		begin("shop/é x", time.Minute, "short", stands)
		begin("news", time.Millisecond, "over", shares)
		if ttl := client.PTTL(ctx, "pushpace:{pauses}:providers").Val(); ttl < 59*time.Minute || ttl > time.Hour {
			t.Errorf("the pauses live for %s, want as long as the longest", ttl)
		}
		deadline := time.Now().Add(10 * time.Second)
		for len(list()) > 1 && time.Now().Before(deadline) {
		}
		got := list()
		if len(got) != 1 {
			t.Fatalf("listed: %+v", got)
		}
		left := time.Until(got[0].Until)
		if p := got[0]; p.App != "shop/é x" || p.Platform != push.FCM || p.Reason != "QUOTA_EXCEEDED" || p.level != 2 || left < 59*time.Minute || left > time.Hour {
			t.Errorf("listed: %+v, for %s", p, left)
		}
		begin("shop/é x", 2*time.Hour, "longer", shares)
		begin("shop/é x", 0, "without_end", shares)
		begin("shop/é x", time.Hour, "not_for_ever", stands)
		if ttl := client.PTTL(ctx, "pushpace:{pauses}:providers").Val(); ttl >= 0 {
			t.Errorf("a pause without an end is over in %s", ttl)
		}
		if got := list(); len(got) != 1 || !got[0].Until.IsZero() || got[0].Reason != "without_end" {
			t.Errorf("listed: %+v", got)
		}
		client.HSet(ctx, "pushpace:{pauses}:providers", "odd", "odd")
		client.HSet(ctx, "pushpace:{pauses}:resumed", "stray", "odd")
		all, err := pauses.read(ctx)
		if err != nil || len(all.pauses) != 1 || all.pauses[0].Reason != "without_end" || len(all.resumed) != 0 || !slices.Equal(all.unread, []string{"odd", "stray"}) {
			t.Errorf("with what cannot be read: %+v, %v", all, err)
		}
	})
}

// What one worker learns, another one knows soon.
func TestEveryWorkerLearnsOfAPause(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		worker := func() (*handler, *route) {
			o := &Options{
				Queue: client, Records: push.NewRecords(client, "", 0), Log: slog.New(slog.DiscardHandler),
				Senders: map[string]map[push.Platform]providers.Sender{"shop": {push.APNs: nil, push.FCM: nil}},
			}
			o.setDefaults()
			h := newHandler(o)
			h.side.Go(func() { h.watchPauses(ctx) })
			t.Cleanup(h.side.Wait)
			t.Cleanup(stop)
			return h, h.routes["shop"][push.APNs]
		}
		one, its := worker()
		other, others := worker()
		began := time.Now()
		its.proven = true
		one.learn(ctx, its, providers.Outcome{Kind: providers.Misconfigured, Reason: providers.DeadTokenSpike, Concerns: providers.ConcernsApp}, "")
		if its.left(time.Now()) == 0 {
			t.Error("the worker that learns of a pause does not keep it at once")
		}
		// what it does first when it learns of it shows last
		for tick := time.Tick(time.Millisecond); ; <-tick {
			if _, spiking := others.spike.judge(time.Now(), works); spiking {
				break
			}
			if time.Since(began) > 20*time.Second { // it is one at most where processors are free
				t.Fatal("the other worker does not learn of it")
			}
		}
		left := others.pauseLeft(time.Now())
		if least := 29*time.Second - time.Since(began); left > 30*time.Second || left < least {
			t.Errorf("the other worker pauses for %s", left)
		}
		if other.routes["shop"][push.FCM].left(time.Now()) != 0 {
			t.Error("the other platform is paused too")
		}
		if o, spiking := others.spike.judge(time.Now(), providers.Outcome{Kind: providers.DeadToken}); !spiking || o.Kind != providers.Misconfigured {
			t.Error("the other worker goes on dropping tokens")
		}
		if d := others.breaker.left(time.Now()); d == 0 {
			t.Error("the other worker does not probe when the pause is over")
		}
	})
}
