package throttle

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
)

// A server's clock is off or drifts, and the latency varies. The server accepts nearly all predicted
// times.
func TestClockPredicts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		skew   time.Duration
		ppm    float64       // drift of the server's clock
		way    time.Duration // to the server
		jitter time.Duration
		stalls float64 // share of replies that are up to 10 ms slower
	}{
		{"in step", 0, 0, 100 * time.Microsecond, 50 * time.Microsecond, 0},
		{"behind others", 0, 0, 100 * time.Microsecond, 500 * time.Microsecond, 0},
		{"an hour ahead", time.Hour, 0, 100 * time.Microsecond, 50 * time.Microsecond, 0},
		{"drifting fast", time.Second, 500, time.Millisecond, 100 * time.Microsecond, 0},
		{"far away", 0, 20, 40 * time.Millisecond, time.Millisecond, 0},
		{"on a busy machine", 0, 0, 100 * time.Microsecond, 50 * time.Microsecond, 0.3},
	} {
		random := rand.New(rand.NewPCG(1, 2))
		process := newFakeClock()
		c := newClock(process.process())
		held, ahead := 0, int64(0)
		const rounds = 2000
		for i := range rounds {
			process.advance(time.Duration(random.IntN(20_000)) * time.Microsecond)
			sent := c.elapsed()
			way := tt.way + time.Duration(random.Int64N(int64(tt.jitter)))
			if random.Float64() < tt.stalls {
				way += time.Duration(random.Int64N(int64(10 * time.Millisecond)))
			}
			executed := time.Duration(sent)*time.Microsecond + way
			now := start.Add(tt.skew).UnixMicro() + (executed + time.Duration(float64(executed)*tt.ppm/1e6)).Microseconds()
			if i > 0 {
				stamp := c.predict(sent)
				if stampHolds(stamp, now) {
					held++
				}
				ahead += stamp - now
			}
			process.advance(way + tt.way)
			c.observe(sent, now)
		}
		if float64(held) < rounds*(0.98-tt.stalls/2) {
			t.Errorf("%s: %d of %d stamps hold", tt.name, held, rounds)
		}
		if mean := ahead / rounds; mean < -500 || mean > 1000+int64(tt.stalls*10_000) {
			t.Errorf("%s: a stamp is %d µs ahead on average", tt.name, mean)
		}
	}
}

// TestPassedTimeIsLowerBound delays replies by 1 to 30 ms. passed never returns more than the true
// time, and is short of it by at most the fastest recent latency. After a step of the server's
// clock it starts over.
func TestPassedTimeIsLowerBound(t *testing.T) {
	t.Parallel()
	const fastest, slowest, drift = 1_000, 30_000, 100 // µs
	random := rand.New(rand.NewPCG(3, 4))
	process := newFakeClock()
	c := newClock(process.process())
	server, back := int64(1_700_000_000_000_000), int64(0)
	ask := func(way, back int64) int64 {
		sent := c.elapsed()
		process.advance(time.Duration(way+back) * time.Microsecond)
		return c.passed(sent, server+sent+way)
	}
	if passed := ask(fastest, slowest); passed != 0 {
		t.Errorf("nothing is known, and %d µs have passed", passed)
	}
	for range 2000 {
		process.advance(time.Duration(random.IntN(10_000)) * time.Microsecond)
		server += random.Int64N(3) - 1 // drift
		ask(slowest, fastest)
		back = fastest + random.Int64N(slowest)
		if passed := ask(fastest, back); passed > back+drift || passed < back-fastest-drift {
			t.Fatalf("an answer that took %d µs is taken for one of %d", back, passed)
		}
	}
	for name, step := range map[string]int64{"set back": -time.Minute.Microseconds(), "set on": time.Minute.Microseconds()} {
		server += step
		if passed := ask(fastest, slowest); passed > 0 {
			t.Errorf("%s: %d µs have passed by what was known before", name, passed)
		}
		ask(fastest, fastest)
	}
	process.advance(3 * time.Second)
	if passed := ask(fastest, slowest); passed != 0 {
		t.Errorf("after a long silence %d µs have passed", passed)
	}
}

// TestLateReplyShortensTimeLeft delays a reply by 400 ms: Left is shorter by as much.
func TestLateReplyShortensTimeLeft(t *testing.T) {
	t.Parallel()
	const late = 400 * time.Millisecond
	server, clock := redistest.Miniredis(t), newFakeClock()
	server.SetTime(clock.now())
	client := redistest.Connect(t, &redis.Options{Addr: server.Addr()})
	client.AddHook(redistest.Around(func(_ context.Context, cmds []redis.Cmder, next func() error) error {
		err := next()
		if err == nil && (redistest.Script(cmds[0]) || cmds[0].Name() == "eval") {
			clock.advance(late)
		}
		return err
	}))
	l := newLimiter(t, client, Options{Timeout: time.Minute, Now: clock.now})
	ask := func(id string) Decision {
		d, err := l.Acquire(t.Context(), Request{User: "u", ID: id, Horizon: time.Hour, Scopes: []Scope{{General, Policy{MinGap: time.Minute}}}})
		must(t, err)
		return d
	}
	ask("first")
	if d := ask("second"); d.Left != d.At.Sub(d.Now)-late || d.Left <= time.Minute-time.Second {
		t.Errorf("an answer comes after %v, and of %v there is %v left", late, d.At.Sub(d.Now), d.Left)
	}
}

// A reply that was slow, or waited for replicas, is no sign of clock skew.
func TestProvenOffsetIgnoresLatency(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ least, way, want int64 }{
		{-600_000, 600_400, 0},
		{-200, 400, 0},
		{700_000, 300, 700_000},
		{-900_000, 600_000, -300_000},
	} {
		if got := provenOffset(c.least, c.way); got != c.want {
			t.Errorf("%d µs ahead, after an answer that took %d µs: %d, want %d", c.least, c.way, got, c.want)
		}
	}
}
