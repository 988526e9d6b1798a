package throttle

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/internal/base/racing"
)

var (
	simulatedSeed = flag.Uint64("seed", 0, "simulate the run of this seed alone, or with -runs so many from it on")
	simulatedRuns = flag.Int("runs", 0, "number of simulated runs; 0 means the usual one")
)

// TestSimulation runs the limiter, its claims and its script, against a Redis in memory under a
// virtual clock. The simulation holds each round trip and executes it late, twice, never, or
// without a reader of the reply. It judges the grants from its own log.
func TestSimulation(t *testing.T) {
	t.Parallel()
	total := simulateAll(t, simulated, false)
	if total.runs < 100 {
		return // too few for each event to happen
	}
	if total.granted == 0 || total.lost == 0 || total.ghosts == 0 || total.crashes == 0 || total.twins == 0 ||
		total.cancels == 0 || total.changes == 0 || total.refused == 0 || total.held == 0 || total.passed == 0 {
		t.Error("the runs left out something they are made for")
	}
}

// TestSimulationWithServerClockSteps steps Redis's own clock back and forth by seconds. The
// limits still hold by that clock.
func TestSimulationWithServerClockSteps(t *testing.T) {
	t.Parallel()
	if total := simulateAll(t, simulated/4, true); total.jolts == 0 || total.granted == 0 {
		t.Error("the clock did not step")
	}
}

// simulateAll runs that many histories, or the ones selected by -seed and -runs.
func simulateAll(t *testing.T, runs int, jolts bool) (total figures) {
	t.Helper()
	if *simulatedRuns > 0 {
		runs = *simulatedRuns
	} else if runs = racing.Fewer(runs); testing.Short() {
		runs = max(1, runs/8)
	}
	first := uint64(1)
	if *simulatedSeed > 0 {
		first, runs = *simulatedSeed, max(1, *simulatedRuns)
	}
	failed := 0
	for i := range runs {
		w := simulate(t, &total, first+uint64(i), jolts, *simulatedSeed > 0 && runs == 1)
		if len(w.faults) > 0 {
			t.Error(w.report(t.Name()))
			if failed++; failed == 5 {
				break
			}
		}
	}
	deliveries := float64(max(1, total.deliveries))
	t.Logf("%.2f acquires and %.2f round trips a delivery: %+v", float64(total.acquires)/deliveries, float64(total.trips)/deliveries, total)
	return total
}

// simulate runs the history of one seed, and counts its events.
func simulate(t *testing.T, count *figures, seed uint64, jolts bool, trace bool) *world {
	var w *world
	synctest.Test(t, func(t *testing.T) {
		count.runs++
		w = newWorld(count, seed, jolts)
		if trace {
			w.trace = t.Logf
		}
		w.run()
		w.judge()
		w.close()
	})
	return w
}

// A plan holds the drawn parameters of a history.
type plan struct {
	latency  int64 // µs, one way
	jitter   float64
	stall    float64
	lose     float64 // share of round trips with a lost request or reply
	crash    float64 // crashes of workers per job
	twin     float64
	cancel   float64
	giveBack float64
	late     float64 // share of waiting jobs that miss their slot
	early    float64 // share of waiting jobs that come up to a second early
	changes  int     // of limits
	steps    int     // of workers' clocks
	jolts    int     // of the server's clock
	keep     time.Duration
	night    bool // there are quiet hours
	spread   time.Duration
	zones    []*time.Location // of the users
}

const ms, second = int64(1000), int64(1_000_000)

// longestPeriod is the longest period of a simulated policy, and the limiters' horizon.
const longestPeriod = 4 * time.Second

func (w *world) plan(jolts bool) {
	r := w.rng
	p := &w.p
	p.keep = longestPeriod
	if jolts {
		p.keep += 20 * time.Second // a clock step must not move counting entries out of the horizon
		p.jolts = 1 + r.IntN(3)
	}
	some := func(most float64) float64 {
		if r.IntN(3) == 0 {
			return 0
		}
		return most * r.Float64()
	}
	p.latency = 100 + r.Int64N(900)
	p.jitter, p.stall = some(0.3), some(0.1)
	p.lose, p.crash = some(0.15), some(0.3)
	p.twin, p.cancel, p.giveBack = some(0.3), some(0.2), some(0.2)
	p.late, p.early = some(0.3), some(0.2)
	if r.IntN(2) == 0 {
		p.changes = 1 + r.IntN(3)
	}
	p.steps = r.IntN(3)
	w.planNight()
	for range 2 + r.IntN(4) {
		w.addWorker()
	}
	for u := range 1 + r.IntN(2) {
		w.addUser(fmt.Sprintf("u%d", u))
	}
	burst := 1 + r.Int64N(3*second)
	for _, u := range w.users {
		for range 3 + r.IntN(18) {
			w.addJob(u, r.Int64N(burst))
		}
	}
	for range p.changes {
		w.at(r.Int64N(burst+2*second), w.changeLimits)
	}
	for range p.steps {
		worker := w.workers[r.IntN(len(w.workers))]
		step := between(r, -5*second, 5*second)
		if r.IntN(2) == 0 {
			step = between(r, -20*ms, 20*ms)
		}
		w.at(r.Int64N(burst+second), func() { worker.skew.Add(step) })
	}
	for range p.jolts {
		jolt := between(r, -5*second, 5*second)
		w.at(r.Int64N(burst+second), func() {
			w.figures.jolts++
			w.server += jolt
			w.say("the server's clock steps by %d µs", jolt)
		})
	}
	for range int(p.crash * float64(len(w.jobs))) {
		worker := w.workers[r.IntN(len(w.workers))]
		w.at(r.Int64N(burst+second), func() { w.crash(worker) })
	}
}

func between(r *rand.Rand, low, high int64) int64 { return low + r.Int64N(high-low+1) }

// randomPolicy draws limits low enough that lines form. Sometimes the policy's longest period is
// the horizon.
func randomPolicy(r *rand.Rand) Policy {
	var p Policy
	if r.IntN(3) > 0 {
		p.MinGap = time.Duration(between(r, 1, 120)) * time.Millisecond
	}
	for range r.IntN(3) {
		rate := Rate{Count: 1 + r.IntN(6), Period: time.Duration(between(r, 30, 1500)) * time.Millisecond}
		if r.IntN(12) == 0 {
			rate = Rate{Count: 2 + r.IntN(6), Period: longestPeriod}
		}
		p.Rates = append(p.Rates, rate)
	}
	return p
}

// adjust lowers or raises one of the policy's limits.
func adjust(r *rand.Rand, p Policy) Policy {
	factor := []float64{0.3, 0.5, 2, 3}[r.IntN(4)]
	scale := func(d time.Duration) time.Duration {
		return min(longestPeriod, time.Duration(float64(d)*factor).Truncate(time.Microsecond))
	}
	q := Policy{MinGap: p.MinGap, Rates: append([]Rate(nil), p.Rates...)}
	switch i := r.IntN(len(q.Rates) + 2); {
	case i == 0:
		q.MinGap = scale(q.MinGap)
	case i <= len(q.Rates) && r.IntN(2) == 0:
		q.Rates[i-1].Period = scale(q.Rates[i-1].Period)
	case i <= len(q.Rates):
		q.Rates[i-1].Count = max(1, int(float64(q.Rates[i-1].Count)*factor))
	default:
		return randomPolicy(r)
	}
	return q
}
