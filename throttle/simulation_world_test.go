package throttle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
)

// A world is one simulated history. It runs one event at a time. After each event it waits until
// every goroutine of the limiters is blocked: at a round trip, or because it waits for another
// goroutine that is at a round trip.
type world struct {
	seed  uint64
	rng   *rand.Rand
	p     plan
	trace func(string, ...any)

	now    atomic.Int64 // µs
	server int64        // how far the server's clock is ahead of the world's, µs
	order  int
	events []event // in order
	count  int     // of round trips

	redis   *miniredis.Miniredis
	raw     *redis.Client
	workers []*simWorker
	users   []*simUser
	jobs    []*job

	running *simCall
	calls   []*simCall // running, oldest first
	pending map[*trip]bool

	mu      sync.Mutex
	arrived []*trip // since the last call of quiet
	closing bool

	log     []*admission
	faults  []string
	figures *figures
}

// epoch is the server's clock when a history begins.
var epoch = time.Date(2026, 1, 2, 3, 4, 58, 0, time.UTC)

func newWorld(count *figures, seed uint64, jolts bool) *world {
	w := &world{figures: count, seed: seed, rng: rand.New(rand.NewPCG(seed, 3)), pending: map[*trip]bool{},
		redis: miniredis.NewMiniRedis(), trace: func(string, ...any) {}}
	w.setTime()
	w.redis.ClockTTL(true)
	w.raw = w.client()
	w.plan(jolts)
	if w.rng.IntN(4) > 0 {
		w.must(slotsScript.Load(context.Background(), w.raw).Err())
	}
	return w
}

func (w *world) must(err error) {
	if err != nil {
		panic(err)
	}
}

func (w *world) client() *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:6379", MaxRetries: -1, DisableIdentity: true, ContextTimeoutEnabled: true,
		Dialer: func(context.Context, string, string) (net.Conn, error) { return w.redis.Dial() },
	})
}

func (w *world) setTime() {
	w.redis.SetTime(epoch.Add(time.Duration(w.now.Load()+w.server) * time.Microsecond))
}

// serverNow is the server's clock in µs since 1970.
func (w *world) serverNow() int64 { return epoch.UnixMicro() + w.now.Load() + w.server }

func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

func (w *world) fault(format string, args ...any) {
	if len(w.faults) < 10 {
		w.faults = append(w.faults, fmt.Sprintf(format, args...))
	}
}

func (w *world) say(format string, args ...any) {
	w.trace("%9.3f ms  %s", float64(w.now.Load())/1000, fmt.Sprintf(format, args...))
}

// run runs the history until no event is left.
func (w *world) run() {
	const longest = 20 * 60 * second
	for len(w.events) > 0 && len(w.faults) == 0 {
		e := w.events[0]
		w.events = w.events[1:]
		w.now.Store(max(w.now.Load(), e.at))
		if e.at > longest {
			w.fault("the history does not end: %s waits", w.unfinished())
			return
		}
		e.do()
	}
}

func (w *world) close() {
	w.closing = true
	for len(w.pending) > 0 {
		for t := range w.pending {
			w.lose(t, 0)
			break
		}
	}
	for _, worker := range w.workers {
		w.must(worker.limiter.Close())
		w.must(worker.client.Close())
	}
	w.must(w.raw.Close())
	w.redis.Close()
}

type event struct {
	at int64
	do func()
}

// at adds an event behind all that are due by then.
func (w *world) at(at int64, do func()) {
	i, _ := slices.BinarySearchFunc(w.events, at+1, func(e event, at int64) int { return cmp.Compare(e.at, at) })
	w.events = slices.Insert(w.events, i, event{at, do})
}

func (w *world) after(d int64, do func()) { w.at(w.now.Load()+d, do) }

// A simWorker is a process: a limiter with a client and a clock of its own.
type simWorker struct {
	name    string
	world   *world
	limiter *Redis
	client  *redis.Client
	skew    atomic.Int64 // µs
	drift   float64
	limits  map[string]Policy
	pending int // round trips under way
}

func (w *world) addWorker() {
	s := &simWorker{name: fmt.Sprintf("w%d", len(w.workers)), world: w, limits: map[string]Policy{}}
	s.skew.Store(between(w.rng, -5*second, 5*second))
	s.drift = (w.rng.Float64() - 0.5) * 400e-6
	s.start()
	w.workers = append(w.workers, s)
}

func (s *simWorker) start() {
	s.client = s.world.client()
	s.client.AddHook(redistest.Around(s.hold))
	s.limiter = NewRedis(s.client, Options{Prefix: "sim", Horizon: s.world.p.keep, Now: s.clock})
}

func (s *simWorker) clock() time.Time {
	now := s.world.now.Load()
	return epoch.Add(time.Duration(now+int64(float64(now)*s.drift)+s.skew.Load()) * time.Microsecond)
}

// A simCall is one call of a limiter.
type simCall struct {
	worker  *simWorker
	job     *job
	request Request
	done    bool

	decision Decision
	placed   FollowUp
	err      error
	then     func(*simCall)

	executed int64 // time of the decision, µs
	decided  int64 // time of the decision on the server's clock, µs since 1970
	order    int   // its position among all decisions
}

// start runs a call up to its first round trip.
func (w *world) start(c *simCall, do func(context.Context, *simCall)) {
	w.running = c
	w.calls = append(w.calls, c)
	go func() {
		do(context.WithValue(context.Background(), callKey{}, c), c)
		c.done = true
	}()
	w.quiet()
}

// callKey is the context key of a call. The pipelines' contexts have no call.
type callKey struct{}

// quiet waits until every call is at a round trip or done. A call that ends may release other
// calls.
func (w *world) quiet() {
	synctest.Wait()
	w.running = nil
	arrived := w.arrived
	w.arrived = nil
	slices.SortStableFunc(arrived, func(a, b *trip) int {
		return slices.Index(w.calls, a.call) - slices.Index(w.calls, b.call)
	})
	for _, t := range arrived {
		w.arrive(t)
	}
	var done []*simCall
	w.calls = slices.DeleteFunc(w.calls, func(c *simCall) bool {
		if c.done {
			done = append(done, c)
		}
		return c.done
	})
	for _, c := range done {
		if !w.closing {
			c.then(c)
		}
	}
}

// A trip is one round trip of a call.
type trip struct {
	call     *simCall
	worker   *simWorker
	number   int
	cmds     []redis.Cmder
	name     string
	execute  chan struct{}
	reply    chan error
	executed bool
}

var errLost = errors.New("simulated: the connection is lost")

// hold is the hook between a worker's client and its connection.
func (worker *simWorker) hold(ctx context.Context, cmds []redis.Cmder, next func() error) error {
	name := text(cmds[0].Args()[0])
	if name == "hello" || name == "client" {
		return next()
	}
	w := worker.world
	c, ok := ctx.Value(callKey{}).(*simCall)
	if !ok {
		c = w.running
	}
	t := &trip{call: c, worker: worker, cmds: cmds, name: name,
		execute: make(chan struct{}), reply: make(chan error)}
	w.mu.Lock()
	w.arrived = append(w.arrived, t)
	w.mu.Unlock()
	var err error
	select {
	case <-t.execute:
		err = next()
		if lost := <-t.reply; lost == nil {
			return err
		}
	case <-t.reply:
	}
	return redistest.Fail(cmds, errLost)
}

func text(arg any) string {
	if s, ok := arg.(*string); ok {
		return *s
	}
	return fmt.Sprint(arg)
}

// arrive draws the fate of a round trip.
func (w *world) arrive(t *trip) {
	w.count++
	t.number = w.count
	w.pending[t] = true
	t.worker.pending++
	if w.closing {
		return
	}
	there := w.way()
	switch {
	case !w.chance(w.p.lose):
		w.after(there, func() { w.execute(t); w.after(w.way(), func() { w.answer(t) }) })
	case w.chance(0.3): // request lost, or executed after its caller has given up
		w.after(there, func() { w.lose(t, 0.7) })
	case w.chance(0.5): // reply lost
		w.after(there, func() { w.execute(t); w.after(w.way(), func() { w.lose(t, 0) }) })
	default: // executed after the caller's timeout
		w.after(between(w.rng, 5*ms, 200*ms), func() { w.lose(t, 1) })
	}
}

// way returns the latency of a message, in µs.
func (w *world) way() int64 {
	d := w.p.latency + w.rng.Int64N(w.p.latency/5)
	if w.chance(w.p.jitter) {
		d += w.rng.Int64N(5 * ms)
	}
	if w.chance(w.p.stall) {
		d += w.rng.Int64N(900 * ms)
	}
	return d
}

// execute runs the round trip on the server; its reply is in flight.
func (w *world) execute(t *trip) {
	if !w.pending[t] {
		return
	}
	w.setTime()
	w.figures.trips++
	w.running = t.call
	t.execute <- struct{}{}
	synctest.Wait()
	t.executed = true
	if t.name == "multi" || t.name == "evalsha" || t.name == "eval" {
		w.order++
		t.call.executed, t.call.decided, t.call.order = w.now.Load(), w.serverNow(), w.order
	}
	w.say("%s %s %s executed", t.worker.name, t.call.request.ID, t.name)
}

// answer delivers the reply to the caller.
func (w *world) answer(t *trip) { w.release(t, nil) }

// lose drops the reply. With probability late, a round trip that was not executed yet is executed
// later, without a caller.
func (w *world) lose(t *trip, late float64) {
	if !w.pending[t] {
		return
	}
	w.figures.lost++
	w.say("%s %s %s lost", t.worker.name, t.call.request.ID, t.name)
	if !t.executed && !w.closing && w.chance(late) {
		w.haunt(t)
	}
	w.release(t, errLost)
}

func (w *world) release(t *trip, err error) {
	if !w.pending[t] {
		return
	}
	delete(w.pending, t)
	t.worker.pending--
	w.running = t.call
	t.reply <- err
	w.quiet()
}

// haunt runs a copy of the round trip on the server later.
func (w *world) haunt(t *trip) {
	var copies [][]any
	for _, cmd := range t.cmds {
		var args []any
		for _, arg := range cmd.Args() {
			args = append(args, text(arg))
		}
		copies = append(copies, args)
	}
	w.after(w.rng.Int64N(2*second), func() {
		w.figures.ghosts++
		w.setTime()
		w.say("%s ghost %s", t.call.request.ID, t.name)
		pipe := w.raw.Pipeline()
		for _, args := range copies {
			pipe.Do(context.Background(), args...)
		}
		_, _ = pipe.Exec(context.Background()) // errors such as NOSCRIPT are expected
		w.order++
		if j := t.call.job; j != nil {
			j.ghost, j.unheard = w.now.Load(), w.order
		}
	})
}
