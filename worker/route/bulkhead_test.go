package route

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/push"
)

// The capacity is one job for each free permit, and one waiter for each permit released in a second.
func TestBulkheadCapacityCountsFreeAndReleasedPermits(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_795_219_200, 0)
	for name, tt := range map[string]struct {
		taken, waiting, coming, left int
		open                         int // after a closing; 0 for all
		want, wantCritical, wantBulk int
	}{
		"idle":               {0, 0, 0, 0, 0, 63, 65, 63},
		"in use":             {62, 0, 0, 0, 0, 1, 3, 1},
		"one waits":          {62, 1, 0, 0, 0, 0, 3, 1},
		"some are in flight": {30, 0, 0, 64, 0, 96, 98, 96},
		"one on its way":     {30, 0, 1, 64, 0, 95, 98, 95},
		"no free permit":     {62, 0, 0, 64, 0, 64, 66, 64},
		"some wait":          {62, 63, 0, 64, 0, 1, 66, 64 / fairShare},
		"too many":           {62, 64, 2, 64, 0, -2, 66, 64 / fairShare},
		"fast":               {62, 100, 0, 300, 0, 200, 302, 200},
		"too fast":           {62, 0, 0, 9999, 0, maxWaiters, maxWaiters + 2, maxWaiters},
		"trying":             {0, 0, 0, 0, 1, 1, 1, 1},
		"probe in flight":    {1, 0, 0, 0, 1, 0, 0, 1},
		"just reopened":      {2, 1, 0, 64, 4, 4, 5, 4},
	} {
		b := newBulkhead(64)
		if tt.open > 0 {
			b.openTo(tt.open)
		}
		b.addInUse(tt.taken)
		b.waiting[1], b.expected[1] = make([]*waiter, tt.waiting), tt.coming
		b.released = flow{now.Unix(), 0, tt.left}
		got := [...]int{b.capacity(1, now), b.capacity(0, now), b.capacity(2, now)}
		if want := [...]int{tt.want, tt.wantCritical, tt.wantBulk}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// After a closing there is one permit. A successful push adds a permit, a failed push halves them.
func TestPermitsGrowAfterClosing(t *testing.T) {
	t.Parallel()
	b := newBulkhead(4)
	b.reopen()
	for _, step := range []struct {
		works bool
		want  int
	}{{false, 1}, {true, 2}, {true, 3}, {false, 1}, {true, 2}, {true, 3}, {true, 4}, {true, 4}, {false, 4}} {
		if b.worked(step.works); b.free(0) != step.want {
			t.Errorf("%d permits, want %d", b.free(0), step.want)
		}
	}
	if !b.idle.Load() {
		t.Error("the bulkhead is not idle")
	}
}

// Pushes that hang when the route closes take no permit from the probes.
func TestHangingPushesDoNotBlockProbe(t *testing.T) {
	t.Parallel()
	b, now := newBulkhead(8), time.Now()
	b.addInUse(5)
	b.reopen()
	if b.free(1) != 1 || b.capacity(1, now) != 1 {
		t.Errorf("%d permits are free", b.free(1))
	}
	b.addInUse(1)
	b.worked(true)
	if b.free(1) != 1 {
		t.Errorf("after a successful push %d permits are free", b.free(1))
	}
	for range 6 {
		b.release()
	}
	if b.free(1) != 2 || b.stale != 0 {
		t.Errorf("after all pushes %d permits are free, %d are old", b.free(1), b.stale)
	}
}

// Other pulls cannot use the capacity reserved by a running pull.
func TestPullReservesCapacity(t *testing.T) {
	t.Parallel()
	b, now := newBulkhead(4), time.Now()
	if n, bounded := b.reserve(1, 64, now); n != 0 || bounded {
		t.Errorf("of an idle bulkhead %d are reserved", n)
	}
	b.addInUse(4)
	b.released = flow{now.Unix(), 64, 0}
	b.waiting[1] = make([]*waiter, 64-5)
	for _, want := range []int{5, 0} {
		if n, bounded := b.reserve(1, 8, now); n != want || !bounded {
			t.Errorf("%d are reserved, want %d", n, want)
		}
	}
	b.expect(1, 5)
	if !b.Fits(push.Default, now) {
		t.Error("a running pull takes the capacity of a claimed job")
	}
	b.unreserve(1, 5)
	b.expect(1, 2)
	gone := 0
	for range 3 {
		if !b.Fits(push.Default, now) {
			gone++
		}
	}
	if gone != 2 {
		t.Errorf("%d jobs do not fit, want 2", gone)
	}
}

// Critical pushes find the reserved permits free, and get released permits first. Every eighth
// permit goes to the longest waiter.
func TestPermitsGoToCriticalPushesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(64)
		var mu sync.Mutex
		var came []push.Priority
		var all sync.WaitGroup
		come := func(p push.Priority, n int) {
			for range n {
				all.Go(func() {
					if b.acquire(t.Context(), rankOf(p)) {
						mu.Lock()
						defer mu.Unlock()
						came = append(came, p)
					}
				})
			}
			time.Sleep(time.Millisecond) // later waiters have waited for less
			synctest.Wait()
		}
		come(push.Bulk, 100)
		if len(came) != 62 {
			t.Fatalf("%d bulk pushes got a permit, with 2 of 64 permits reserved", len(came))
		}
		come(push.Critical, 2)
		if len(came) != 64 {
			t.Fatalf("%d got a permit, with two critical ones", len(came))
		}
		come(push.Default, 20)
		come(push.Critical, 20)
		came = nil
		for range 80 {
			b.release()
			synctest.Wait()
		}
		all.Wait()
		if len(came) != 78 {
			t.Fatalf("%d got a permit after them", len(came))
		}
		counts := map[push.Priority]int{}
		for i, p := range came {
			if counts[p]++; (i+1)%8 == 0 && i < 40 && p != push.Bulk {
				t.Errorf("the eighth permit, %d, was given to %s", i, p)
			}
			if i == 21 && counts[push.Critical] != 20 {
				t.Errorf("of the first %d, %v are critical", i+1, counts)
			}
		}
		if counts[push.Bulk] != 38 || counts[push.Default] != 20 {
			t.Errorf("%v", counts)
		}
	})
}

// A cancelled waiter takes no permit, not even a permit that is given at the instant of the cancel.
func TestCancelledWaiterTakesNoPermit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(1)
		b.takeOrQueue(0)
		given := make(chan bool)
		go func() { given <- b.acquire(t.Context(), 2) }()
		if <-given {
			t.Fatal("a permit in use was given")
		}
		if taken, waiting := b.load(); taken != 1 || waiting != 0 {
			t.Errorf("%d taken, %d waiting", taken, waiting)
		}
		b.release()
		if !b.acquire(t.Context(), 2) {
			t.Error("the free permit was not given")
		}
	})
}

// A bulkhead that shrinks gives no permit until fewer are in use. One that grows gives waiters the new
// permits, except the reserved ones.
func TestResizedBulkheadGrantsUpToNewSize(t *testing.T) {
	t.Parallel()
	b := newBulkhead(64)
	inside := func(want, waiting int) {
		t.Helper()
		if got, wait := b.load(); got != want || wait != waiting {
			t.Errorf("%d permits in use and %d waiters, want %d and %d", got, wait, want, waiting)
		}
	}
	for range 70 {
		b.takeOrQueue(rankOf(push.Default))
	}
	inside(62, 8)
	b.resize(32)
	for range 31 {
		b.release()
	}
	inside(31, 8) // one of 32 is reserved
	b.takeOrQueue(rankOf(push.Critical))
	inside(32, 8)
	b.resize(0)
	b.release()
	inside(31, 8)
	b.resize(64)
	inside(39, 0)
}

// demand returns twice the permits in use, or all when full. Without use the result halves at each
// renewal.
func TestBulkheadDemandFollowsUse(t *testing.T) {
	t.Parallel()
	b := newBulkhead(64)
	demand := func(what string, wantHolds, want int) {
		t.Helper()
		if holds, got := b.demand(); holds != wantHolds || got != want {
			t.Errorf("%s: it holds %d and wants %d, want %d and %d", what, holds, got, wantHolds, want)
		}
	}
	demand("idle", 64, 8)
	for range 10 {
		b.takeOrQueue(1)
	}
	demand("some", 64, 20)
	b.resize(10)
	demand("full", 10, 64)
	b.resize(4)
	demand("too many in use", 10, 64)
	b.resize(40)
	for _, want := range []int{32, 20, 20} {
		demand("fewer in use", 40, want)
	}
	b.resize(0)
	demand("none", 10, 64)
	b = newBulkhead(1)
	demand("one permit", 1, 1)
}
