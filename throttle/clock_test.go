package throttle

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
)

// TestClockPredicts has claims sent to a server whose clock is off, drifts and is reached
// over a way of varying length, on a machine that others keep busy or not. The stamp of
// nearly each holds, and is no later than the way varies.
func TestClockPredicts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		skew   time.Duration
		ppm    float64       // how fast the server's clock is
		way    time.Duration // to the server
		jitter time.Duration
		stall  time.Duration // how long all are held up at most, one time in ten
		held   int           // of 1000 at least
	}{
		{"in step", 0, 0, 100 * time.Microsecond, 50 * time.Microsecond, 0, 1000},
		{"behind others", 0, 0, 100 * time.Microsecond, 5 * time.Millisecond, 0, 1000},
		{"an hour ahead", time.Hour, 0, 100 * time.Microsecond, 50 * time.Microsecond, 0, 1000},
		{"an hour behind", -time.Hour, 0, 100 * time.Microsecond, 50 * time.Microsecond, 0, 1000},
		{"drifting fast", time.Second, 500, time.Millisecond, 100 * time.Microsecond, 0, 1000},
		{"drifting slowly", time.Second, -500, time.Millisecond, 100 * time.Microsecond, 0, 1000},
		{"far away", 0, 20, 40 * time.Millisecond, time.Millisecond, 0, 1000},
		{"contended", 0, 0, 100 * time.Microsecond, 2 * time.Millisecond, 30 * time.Millisecond, 980},
		{"contended beyond what holds", 0, 0, 100 * time.Microsecond, 2 * time.Millisecond, 100 * time.Millisecond, 900},
	} {
		random := rand.New(rand.NewPCG(1, 2))
		process := newFakeClock()
		c := newClock(process.now)
		held, ahead := 0, int64(0)
		const rounds = 2000
		for i := range rounds {
			process.advance(time.Duration(random.IntN(20_000)) * time.Microsecond)
			sent := c.elapsed()
			way := tt.way + time.Duration(random.Int64N(int64(tt.jitter)))
			if tt.stall > 0 && random.IntN(10) == 0 {
				way += time.Duration(random.Int64N(int64(tt.stall)))
			}
			executed := time.Duration(sent)*time.Microsecond + way
			now := start.Add(tt.skew).UnixMicro() + (executed + time.Duration(float64(executed)*tt.ppm/1e6)).Microseconds()
			if i > waySamples {
				stamp := c.predict(sent)
				if stampHolds(stamp, now) {
					held++
				}
				ahead = max(ahead, stamp-now)
			}
			c.observe(sent, now)
		}
		if least := (rounds - waySamples - 1) * tt.held / 1000; held < least {
			t.Errorf("%s: %d of %d stamps hold, want %d", tt.name, held, rounds-waySamples-1, least)
		}
		if most := min(stampLate, (tt.jitter+tt.stall).Microseconds()) + 1000; ahead > most {
			t.Errorf("%s: a stamp is %d µs ahead, want %d at most", tt.name, ahead, most)
		}
	}
}

// TestClockAfterAStep has the server's clock step. The first stamp does not hold, and after
// some observations all do, as exactly as before.
func TestClockAfterAStep(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{100 * time.Millisecond, -100 * time.Millisecond, time.Hour, -time.Hour} {
		process := newFakeClock()
		c := newClock(process.now)
		server := func() int64 { return process.now().UnixMicro() }
		for range 200 {
			process.advance(time.Millisecond)
			c.observe(c.elapsed(), server())
		}
		if off := c.predict(c.elapsed()) - server(); off != 0 {
			t.Fatalf("before a step the prediction is %d µs off", off)
		}
		if c.wall.Load() != 0 {
			t.Errorf("the server's clock is %d µs ahead, want 0", c.wall.Load())
		}
		now := func() int64 { return server() + step.Microseconds() }
		if stampHolds(c.predict(c.elapsed()), now()) {
			t.Errorf("a stamp from before a step of %v holds", step)
		}
		c.observe(c.elapsed(), now())
		if step < 0 && !stampHolds(c.predict(c.elapsed()), now()) {
			t.Errorf("after a step of %v the second stamp does not hold", step)
		}
		for range 2*wayKept/1000 + 1 {
			process.advance(time.Millisecond)
			c.observe(c.elapsed(), now())
		}
		if off := c.predict(c.elapsed()) - now(); off != 0 {
			t.Errorf("after a step of %v the prediction is %d µs off", step, off)
		}
		if c.wall.Load() != step.Microseconds() {
			t.Errorf("after a step of %v the server's clock is %d µs ahead", step, c.wall.Load())
		}
	}
}

// TestClockForgetsSlowAnswers has answers be slow for a while: the stamps aim ahead as
// long as that, and for a while after.
func TestClockForgetsSlowAnswers(t *testing.T) {
	t.Parallel()
	const fast, slow = 100, 20_000 // µs
	process := newFakeClock()
	c := newClock(process.now)
	ahead := func(way int64) int64 {
		process.advance(time.Millisecond)
		c.observe(c.elapsed(), process.now().UnixMicro()+way)
		return c.predict(c.elapsed()) - process.now().UnixMicro()
	}
	for range 200 {
		ahead(fast)
	}
	if got := ahead(slow); got != slow {
		t.Errorf("after a slow answer a stamp is %d µs ahead, want %d", got, slow)
	}
	n := 1
	for ; ahead(fast) == slow && n < 1000; n++ {
	}
	if n < wayKept/1000 || n > 2*wayKept/1000+1 {
		t.Errorf("the slow answer is forgotten after %d ms", n)
	}
	if got := ahead(fast); got != fast {
		t.Errorf("then a stamp is %d µs ahead, want %d", got, fast)
	}
}

// countedScripts counts the scripts that a client sends.
type countedScripts struct{ n int }

func (h *countedScripts) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *countedScripts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.count(cmd)
		return next(ctx, cmd)
	}
}

func (h *countedScripts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			h.count(cmd)
		}
		return next(ctx, cmds)
	}
}

func (h *countedScripts) count(cmd redis.Cmder) {
	if cmd.Name() == "evalsha" {
		h.n++
	}
}

// TestStampsFailAndHoldAgain has the server's clock step while a claim is made. A stamp
// that is more than 1 ms early never counts, nor one that is too late: the script decides,
// at the server's instant. After some visits the stamps hold again.
func TestStampsFailAndHoldAgain(t *testing.T) {
	t.Parallel()
	server, clock, scripts := redistest.Miniredis(t), newFakeClock(), new(countedScripts)
	server.SetTime(clock.now())
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	client.AddHook(scripts)
	l := NewRedis(client, Options{Timeout: time.Minute, Now: clock.now})
	t.Cleanup(func() {
		_ = l.Close()
		_ = client.Close()
	})
	users := 0
	ask := func() Decision {
		users++
		d, err := l.Acquire(t.Context(), Request{User: fmt.Sprint("u", users), ID: "n", Horizon: time.Hour, Scopes: []Scope{{General, Policy{MinGap: time.Minute}}}})
		if err != nil || d.Status != Granted {
			t.Fatalf("%+v, %v", d, err)
		}
		return d
	}
	ask()
	now := clock.now()
	for _, tt := range []struct {
		step  time.Duration // of the server's clock
		holds bool
	}{
		{900 * time.Microsecond, true},
		{1100 * time.Microsecond, false},
		{-40 * time.Millisecond, true},
		{-60 * time.Millisecond, false},
		{time.Hour, false},
		{-time.Hour, false},
	} {
		before := scripts.n
		now = now.Add(tt.step)
		server.SetTime(now)
		d := ask()
		if holds := scripts.n == before; holds != tt.holds {
			t.Errorf("after a step of %v the stamp holds: %t", tt.step, holds)
		}
		if !tt.holds && !d.At.Equal(now) || d.At.Before(now.Add(-stampEarly*time.Microsecond)) {
			t.Errorf("after a step of %v it is let through at %v, and it is %v", tt.step, d.At, now)
		}
		for range 2*waySamples + 1 {
			clock.advance(wayKept / waySamples * time.Microsecond)
			now = now.Add(wayKept / waySamples * time.Microsecond)
			server.SetTime(now)
			ask()
		}
		before = scripts.n
		if ask(); scripts.n != before {
			t.Errorf("long after a step of %v a stamp does not hold", tt.step)
		}
	}
}

// TestPassed has answers come back after 1 to 30 ms. What is said to have passed never
// is more than has, and differs from it by no more than the fastest answer took lately;
// a server's clock that is set back is followed.
func TestPassed(t *testing.T) {
	t.Parallel()
	const fastest, slowest, drift = 1_000, 30_000, 100 // µs
	random := rand.New(rand.NewPCG(3, 4))
	process := newFakeClock()
	c := newClock(process.now)
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
		server += random.Int64N(3) - 1 // which drifts
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

// lateAnswers has answers of scripts come that much later, by a clock that is set.
type lateAnswers struct {
	by    time.Duration
	clock *fakeClock
}

func (h lateAnswers) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h lateAnswers) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h lateAnswers) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil && strings.HasPrefix(cmd.Name(), "eval") {
			h.clock.advance(h.by)
		}
		return err
	}
}

// TestALateAnswer has an answer come 400 ms after the decision: so much less of the time
// left is to be waited for.
func TestALateAnswer(t *testing.T) {
	t.Parallel()
	const late = 400 * time.Millisecond
	server, clock := redistest.Miniredis(t), newFakeClock()
	server.SetTime(clock.now())
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	client.AddHook(lateAnswers{late, clock})
	l := NewRedis(client, Options{Timeout: time.Minute, Now: clock.now})
	t.Cleanup(func() {
		_ = l.Close()
		_ = client.Close()
	})
	ask := func(id string) Decision {
		d, err := l.Acquire(t.Context(), Request{User: "u", ID: id, Horizon: time.Hour, Scopes: []Scope{{General, Policy{MinGap: time.Minute}}}})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	ask("first")
	if d := ask("second"); d.Passed != late || d.Left <= time.Minute-time.Second {
		t.Errorf("an answer comes after %v, and of %v left %v have passed", late, d.Left, d.Passed)
	}
}
