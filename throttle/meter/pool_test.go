package meter_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
)

// A strained meter is slow and loses replies. Each direction of a call takes the duration that trip
// returns. A reply is lost if fails returns true.
type strained struct {
	meter.Meter
	mu    sync.Mutex
	asked []meter.Ask
	trip  func() time.Duration
	fails func() bool
}

func (m *strained) Take(ctx context.Context, key string, s meter.Spec, a meter.Ask) (meter.Answer, error) {
	m.mu.Lock()
	m.asked = append(m.asked, a)
	m.mu.Unlock()
	time.Sleep(m.trip())
	answer, err := m.Meter.Take(ctx, key, s, a)
	if m.fails() {
		return meter.Answer{}, errors.New("the reply is lost")
	}
	time.Sleep(m.trip())
	return answer, err
}

func (m *strained) all() []meter.Ask { m.mu.Lock(); defer m.mu.Unlock(); return slices.Clone(m.asked) }
func (m *strained) asks() int        { return len(m.all()) }

// thousand allows 1000 units a second, counted over any 6 s.
func thousand() meter.Spec {
	return meter.Spec{Rates: []throttle.Rate{{Count: 6000, Period: 6 * time.Second}}} // a pool turns it into a promise
}

// even allows 5000 units a second, evenly spaced.
func even() meter.Spec {
	return meter.Spec{Algorithm: meter.LeakyBucket, Rates: []throttle.Rate{{Count: 30_000, Period: 6 * time.Second}}}.Promise()
}

// rest sleeps, unless ctx ends.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Any number of processes together use at most the rate in any period, and nearly all of it,
// despite crashes, stalls and lost replies.
func TestProcessesShareRate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		processes int
		spec      func() meter.Spec
	}{{1, thousand}, {8, thousand}, {3, even}} {
		processes, rate := c.processes, c.spec().Rates[0]
		t.Run(fmt.Sprint(processes, " ", rate), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const lasts = 20 * time.Second
				random := rand.New(rand.NewPCG(1, uint64(processes)))
				var mu sync.Mutex
				var used []time.Time
				chance := func(n int) bool { mu.Lock(); defer mu.Unlock(); return random.IntN(n) == 0 }
				m := &strained{
					Meter: new(oracleMeter),
					trip: func() time.Duration {
						mu.Lock()
						defer mu.Unlock()
						return time.Duration(random.IntN(5)) * time.Millisecond
					},
					fails: func() bool { return chance(100) },
				}
				ctx, cancel := context.WithTimeout(t.Context(), lasts)
				defer cancel()
				var all sync.WaitGroup
				for range processes {
					all.Go(func() {
						for ctx.Err() == nil { // each process ends with a crash
							alive, crash := context.WithTimeout(ctx, time.Duration(2+processes)*time.Second)
							pools := meter.NewPools(m)
							var senders sync.WaitGroup
							for range 2000 / processes {
								senders.Go(func() {
									for alive.Err() == nil {
										units := 1
										if chance(30) {
											units = 10
										}
										needs := []meter.Need{{Pool: pools.Of("fcm", c.spec), Units: units}}
										until, lacking := pools.Take(alive, needs, meter.Ordinary, 2*time.Second)
										if lacking != nil {
											rest(alive, 500*time.Millisecond)
											continue
										}
										if chance(50) {
											time.Sleep(70 * time.Millisecond) // the process stalls
										}
										mu.Lock()
										now := time.Now()
										if now.Before(until) && alive.Err() == nil {
											used = append(used, slices.Repeat([]time.Time{now}, needs[0].Units)...)
										}
										mu.Unlock()
										rest(alive, 20*time.Millisecond)
									}
								})
							}
							senders.Wait()
							crash()
							pools.Close()
						}
					})
				}
				all.Wait()
				slices.SortFunc(used, time.Time.Compare)
				for i := range used {
					if j := i + rate.Count; j < len(used) && used[j].Sub(used[i]) < rate.Period {
						t.Fatalf("%d are used within %v", rate.Count+1, used[j].Sub(used[i]))
					}
				}
				share := float64(len(used)) / lasts.Seconds() * rate.Period.Seconds() / float64(rate.Count)
				t.Logf("%.3f of the rate are used, %.0f asks a second and process", share, float64(m.asks())/lasts.Seconds()/float64(processes))
				if share < .9 {
					t.Errorf("%.3f of the rate are used", share)
				}
			})
		})
	}
}

// inPools runs a test of pools on a meter that answers at once.
func inPools(t *testing.T, test func(t *testing.T, pools *meter.Pools, m *strained)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &strained{Meter: new(oracleMeter), trip: func() time.Duration { return 0 }, fails: func() bool { return false }}
		pools := meter.NewPools(m)
		defer pools.Close()
		test(t, pools, m)
	})
}

// take takes one unit of each key, and reports whether it got the units.
func take(t *testing.T, pools *meter.Pools, rank meter.Rank, most time.Duration, keys ...*meter.Pool) (time.Time, bool) {
	t.Helper()
	needs := make([]meter.Need, len(keys))
	for i, key := range keys {
		needs[i] = meter.Need{Pool: key, Units: 1}
	}
	until, lacking := pools.Take(t.Context(), needs, rank, most)
	return until, lacking == nil
}

// spec returns a function for a rate with a burst.
func spec(count int, period time.Duration, burst int) func() meter.Spec {
	return func() meter.Spec {
		return meter.Spec{Rates: []throttle.Rate{{Count: count, Period: period}}, Burst: burst}.Promise()
	}
}

// During a shortage a pool requests only the units that its waiters need: other processes would
// miss units that expire in this pool.
func TestShortageStopsPrefetch(t *testing.T) {
	inPools(t, func(t *testing.T, pools *meter.Pools, m *strained) {
		const takers = 50
		fcm := pools.Of("fcm", spec(60_000, time.Minute, 100))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var all sync.WaitGroup
		for range takers {
			all.Go(func() {
				for ctx.Err() == nil {
					take(t, pools, meter.Ordinary, time.Second, fcm)
					rest(ctx, 5*time.Millisecond)
				}
			})
		}
		all.Wait()
		asked := m.all()
		for _, ask := range asked[len(asked)/2:] {
			if ask.Most > takers {
				t.Fatalf("%d are asked for, of which at most %d are waited for", ask.Most, takers)
			}
		}
	})
}

// A unit is used by the end of its life, or given to another caller.
func TestUnitsExpire(t *testing.T) {
	inPools(t, func(t *testing.T, pools *meter.Pools, _ *strained) {
		fcm := pools.Of("fcm", spec(600, time.Minute, 10))
		asked := time.Now()
		until, _ := take(t, pools, meter.Ordinary, time.Second, fcm)
		if life := until.Sub(asked); life != 250*time.Millisecond {
			t.Errorf("a unit lives for %v", life)
		}
		pools.Return([]meter.Need{{Pool: fcm, Units: 1}}, until)
		if again, ok := take(t, pools, meter.Ordinary, time.Second, fcm); !ok || !again.Equal(until) {
			t.Errorf("what was given back until %v is not taken: %v, %t", until, again, ok)
		}
		pools.Return([]meter.Need{{Pool: fcm, Units: 1}}, until)
		time.Sleep(time.Until(until))
		if other, ok := take(t, pools, meter.Ordinary, time.Second, fcm); !ok || !other.After(until) {
			t.Errorf("what has lapsed at %v is taken: %v, %t", until, other, ok)
		}
	})
}

// Urgent callers find the reserved units while other callers use up all other units.
func TestUrgentTakesReservedUnits(t *testing.T) {
	inPools(t, func(t *testing.T, pools *meter.Pools, m *strained) {
		others := meter.NewPools(m)
		defer others.Close()
		const rate = 100
		fcm, theirs := pools.Of("fcm", spec(rate, time.Second, 20)), others.Of("fcm", spec(rate, time.Second, 20))
		for range 40 { // they use all units, and wait for more
			go others.Take(t.Context(), []meter.Need{{Pool: theirs, Units: 1}}, meter.Ordinary, time.Hour)
		}
		time.Sleep(100 * time.Millisecond)
		if _, ok := take(t, pools, meter.Ordinary, 0, fcm); ok {
			t.Fatal("there is something left for ordinary ones")
		}
		for range 2 {
			if _, ok := take(t, pools, meter.Urgent, time.Millisecond, fcm); !ok {
				t.Error("nothing is kept")
			}
		}
	})
}

// A Take of two keys gets units of both or of none, and does not delay callers with one key.
func TestTakeOfTwoKeysIsAtomic(t *testing.T) {
	inPools(t, func(t *testing.T, pools *meter.Pools, m *strained) {
		fcm, news := pools.Of("fcm", spec(60_000, time.Minute, 100)), pools.Of("news", spec(60, time.Minute, 1))
		if _, ok := take(t, pools, meter.Ordinary, time.Second, fcm, news); !ok {
			t.Fatal("two idle pools have no units")
		}
		var all sync.WaitGroup
		for range 20 {
			time.Sleep(time.Millisecond)
			all.Go(func() { take(t, pools, meter.Ordinary, 2500*time.Millisecond, fcm, news) })
		}
		time.Sleep(time.Millisecond)
		if _, ok := take(t, pools, meter.Ordinary, time.Millisecond, fcm); !ok {
			t.Error("those who wait for the one key hold up the other")
		}
		all.Wait()
		if f, n := fcm.Stats().Taken, news.Stats().Taken; n != 3 || f > 10 {
			t.Errorf("%d are taken of the one, %d of the other", f, n)
		}
		if waste := m.asks(); waste > 40 {
			t.Errorf("%d asks for 3 units", waste)
		}
	})
}

// A need larger than its pool gets as many units as the pool can hold.
func TestTooLargeNeedIsLowered(t *testing.T) {
	inPools(t, func(t *testing.T, pools *meter.Pools, _ *strained) {
		needs := []meter.Need{{Pool: pools.Of("fcm", spec(600, time.Minute, 20)), Units: 100}}
		if _, lacking := pools.Take(t.Context(), needs, meter.Ordinary, time.Second); lacking != nil || needs[0].Units != 18 {
			t.Errorf("%d units", needs[0].Units)
		}
	})
}

// A pool has no room for waiters if it gets no units within their time.
func TestRoomWithoutUnitsIsZero(t *testing.T) {
	inPools(t, func(t *testing.T, pools *meter.Pools, _ *strained) {
		rare := pools.Of("fcm", spec(6, time.Minute, 1))
		take(t, pools, meter.Ordinary, time.Second, rare)
		take(t, pools, meter.Ordinary, time.Millisecond, rare)
		if rare.Room(meter.Ordinary, 2*time.Second) > 0 || rare.Room(meter.Ordinary, time.Minute) == 0 {
			t.Error("the next unit comes in 10 s")
		}
		if free := time.Until(rare.Stats().Free); free < 9*time.Second || free > 11*time.Second {
			t.Errorf("the next unit comes in %v", free)
		}
	})
}

// A raised rate applies to the next caller.
func TestRaisedRateAppliesToNextTake(t *testing.T) {
	inPools(t, func(t *testing.T, pools *meter.Pools, _ *strained) {
		now := spec(2, 24*time.Hour, 1)
		news := pools.Of("news", func() meter.Spec { return now() })
		take(t, pools, meter.Ordinary, time.Second, news)
		take(t, pools, meter.Ordinary, time.Millisecond, news)
		synctest.Wait()
		if news.Room(meter.Ordinary, 2*time.Second) > 0 {
			t.Error("one is to wait for half a day")
		}
		now = spec(86400, 24*time.Hour, 1)
		if news.Room(meter.Ordinary, 2*time.Second) == 0 || !news.Stats().Free.IsZero() {
			t.Error("nobody is to come, by the rate that was")
		}
		if _, ok := take(t, pools, meter.Ordinary, 3*time.Second, news); !ok {
			t.Error("who comes gets nothing, by the rate that was")
		}
	})
}

// After a change to a lower rate, a waiter with a larger need gets as many units as the pool can
// hold.
func TestLoweredRateLowersWaitingNeed(t *testing.T) {
	inPools(t, func(t *testing.T, pools *meter.Pools, m *strained) {
		var lowered atomic.Bool
		fcm := pools.Of("fcm", func() meter.Spec {
			if lowered.Load() {
				return spec(60, time.Minute, 6)()
			}
			return spec(600, time.Minute, 20)()
		})
		pools.Take(t.Context(), []meter.Need{{Pool: fcm, Units: 20}}, meter.Urgent, time.Second)
		go pools.Take(t.Context(), []meter.Need{{Pool: fcm, Units: 15}}, meter.Ordinary, 5*time.Second)
		time.Sleep(time.Millisecond)
		asks := m.asks()
		lowered.Store(true)
		time.Sleep(3 * time.Second)
		if err := fcm.Stats().Err; err != nil || m.asks() == asks {
			t.Errorf("after %d more asks: %v", m.asks()-asks, err)
		}
		time.Sleep(3 * time.Second)
	})
}

// While the meter fails, a pool gives out only the units that it holds; afterwards it continues.
func TestPoolGivesHeldUnitsWhileMeterFails(t *testing.T) {
	inPools(t, func(t *testing.T, pools *meter.Pools, m *strained) {
		var away atomic.Bool
		away.Store(true)
		m.fails = away.Load
		fcm := pools.Of("fcm", spec(600, time.Minute, 10))
		if _, ok := take(t, pools, meter.Urgent, 10*time.Second, fcm); ok || fcm.Stats().Err == nil {
			t.Fatalf("one is given out, the error is %v", fcm.Stats().Err)
		}
		if asks := m.asks(); asks > 20 {
			t.Errorf("%d asks in 10 s", asks)
		}
		away.Store(false)
		time.Sleep(1500 * time.Millisecond)
		asks := m.asks()
		if err := fcm.Stats().Err; err != nil {
			t.Errorf("nobody learns that it answers again: %v", err)
		}
		time.Sleep(time.Minute)
		if more := m.asks() - asks; more > 0 {
			t.Errorf("%d asks for nothing", more)
		}
		if _, ok := take(t, pools, meter.Ordinary, 2*time.Second, fcm); !ok {
			t.Error("it does not go on")
		}
	})
}

// A caller that needs many units gets them, however many callers need one unit each.
func TestLargeNeedIsServed(t *testing.T) {
	inPools(t, func(t *testing.T, pools *meter.Pools, m *strained) {
		const rate = 100
		fcm := spec(rate, time.Second, 20)
		stop, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 4 {
			others := meter.NewPools(m)
			defer others.Close()
			for range 50 {
				all.Go(func() {
					for stop.Err() == nil {
						others.Take(stop, []meter.Need{{Pool: others.Of("fcm", fcm), Units: 1}}, meter.Ordinary, time.Minute)
					}
				})
			}
		}
		time.Sleep(2 * time.Second)
		began := time.Now()
		until, lacking := pools.Take(t.Context(), []meter.Need{{Pool: pools.Of("fcm", fcm), Units: 15}}, meter.Ordinary, 2*time.Second)
		if took := time.Since(began); lacking != nil || took > time.Second || time.Until(until) <= 0 {
			t.Errorf("nobody gets 15 within %v", took)
		}
		cancel()
		all.Wait()
	})
}

// The callers of a burst on an idle pool wait for one answer, and if the units suffice, no caller
// is rejected.
func TestBurstOnIdlePoolRejectsNoCaller(t *testing.T) {
	inPools(t, func(t *testing.T, pools *meter.Pools, m *strained) {
		m.trip = func() time.Duration { return time.Millisecond }
		fcm := pools.Of("fcm", spec(600_000, time.Minute, 6000))
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				if _, ok := take(t, pools, meter.Ordinary, 2*time.Second, fcm); !ok {
					t.Error("one is turned away")
				}
			})
		}
		all.Wait()
		if asks := m.asks(); asks > 3 {
			t.Errorf("%d asks", asks)
		}
	})
}

// A Take of two exhausted pools gets its units within a second.
func TestTakeOfTwoExhaustedPoolsIsServed(t *testing.T) {
	inPools(t, func(t *testing.T, pools *meter.Pools, _ *strained) {
		fcm, news := pools.Of("fcm", spec(6000, time.Minute, 10)), pools.Of("news", spec(6000, time.Minute, 10))
		stop, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for _, pool := range []*meter.Pool{fcm, news} {
			for range 60 {
				all.Go(func() {
					for stop.Err() == nil {
						pools.Take(stop, []meter.Need{{Pool: pool, Units: 1}}, meter.Ordinary, time.Minute)
					}
				})
			}
		}
		time.Sleep(2 * time.Second)
		for range 5 {
			began := time.Now()
			if _, ok := take(t, pools, meter.Ordinary, 2*time.Second, fcm, news); !ok || time.Since(began) > time.Second {
				t.Errorf("after %v: %t", time.Since(began), ok)
			}
		}
		cancel()
		all.Wait()
	})
}
