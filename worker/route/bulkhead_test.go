package route

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/push"
)

// How many more are pulled for a bulkhead, and whether the pulls have to know.
func TestMoreIsPulled(t *testing.T) {
	t.Parallel()
	stalled := bound{0, true, true}
	for name, tt := range map[string]struct {
		taken, waiting, coming int
		still, usual           time.Duration
		want                   bound
	}{
		"a place is free":            {3, 0, 0, time.Minute, 0, bound{pulledLine + 1, false, false}},
		"it moves":                   {4, 9, 0, leastIdle - 1, 0, bound{pulledLine - 9, false, false}},
		"none was ever left":         {4, 2, 0, 100 * time.Millisecond, 0, stalled},
		"few stand before it":        {4, 1, 0, 400 * time.Millisecond, 0, bound{pulledLine - 1, false, false}},
		"a little slow":              {4, 9, 0, 25 * time.Millisecond, 10 * time.Millisecond, bound{400 - 9, true, false}},
		"slow, and as usual":         {4, 2, 0, 2 * time.Second, 1100 * time.Millisecond, stalled},
		"slow, and moves":            {4, 2, 0, 200 * time.Millisecond, 1100 * time.Millisecond, bound{3 - 2, true, false}},
		"slow, and longer":           {4, 9, 0, 300 * time.Millisecond, 100 * time.Millisecond, stalled},
		"slower than any should be":  {4, 0, 0, 500 * time.Millisecond, time.Minute, stalled},
		"very slow, and not for now": {4, 0, 0, 400 * time.Millisecond, time.Minute, bound{0, true, false}},
		"very slow, and a place":     {3, 0, 0, 400 * time.Millisecond, time.Minute, bound{1, true, false}},
		"a place, and one comes":     {3, 0, 1, 400 * time.Millisecond, time.Minute, bound{0, true, false}},
		"for ever":                   {4, 0, 0, time.Hour, 0, stalled},
		"many wait":                  {4, 300, 0, 0, 0, bound{pulledLine - 300, true, false}},
		"many wait or come":          {4, 200, 100, 0, 0, bound{pulledLine - 300, true, false}},
		"as many as may":             {4, 412, 100, 0, 0, bound{0, true, false}},
		"more than may":              {4, maxWaiting, 100, 0, 0, bound{0, true, false}},
	} {
		b, now := newBulkhead(4), time.Now()
		for range tt.taken {
			b.enter(1)
		}
		b.waiting[1], b.coming[1] = make([]*place, tt.waiting), tt.coming
		b.changed, b.meanHold = now.Add(-tt.still).UnixNano(), int64(tt.usual)
		if got := b.more(1, now); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
		if got := b.more(0, now.Add(-tt.still)).room; got != maxCritical+4-tt.taken {
			t.Errorf("%s: %d critical ones", name, got)
		}
	}
}

// Who waits for one that moves again waits on.
func TestWhoWaitsSeesItMove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(1)
		b.enter(0)
		b.waiting[0] = append(b.waiting[0], &place{since: time.Now().UnixNano(), given: make(chan struct{})})
		time.AfterFunc(300*time.Millisecond, func() { b.release(time.Now().UnixNano()) })
		time.AfterFunc(900*time.Millisecond, func() { b.release(time.Now().UnixNano()) })
		start := time.Now()
		if !b.acquire(t.Context(), 1) || time.Since(start) != 900*time.Millisecond {
			t.Errorf("it has no place, or has it after %s", time.Since(start))
		}
	})
}

// Nobody but critical ones waits on for a provider that is stuck, unless its places are
// usually taken as long.
func TestNobodyWaitsForAStuckOne(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		priority    push.Priority
		usual, want time.Duration
	}{
		"critical":      {push.Critical, 0, maxWait},
		"default":       {push.Default, 0, maxIdle},
		"bulk":          {push.Bulk, 0, maxIdle},
		"a little slow": {push.Bulk, maxIdle, 3 * maxIdle},
		"a slow one":    {push.Bulk, time.Second, maxWait},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBulkhead(1)
			b.meanHold = int64(tt.usual)
			b.enter(0)
			start := time.Now()
			if b.acquire(t.Context(), rankOf(tt.priority)) {
				t.Errorf("%s: it got a place", name)
			}
			if waited := time.Since(start); waited != tt.want {
				t.Errorf("%s: it waits for %s, want %s", name, waited, tt.want)
			}
		})
	}
}

// Critical ones find the kept places free, and of those that wait they come first, but
// for each eighth place, which goes to who has waited longest.
func TestPlacesAreGivenByPriority(t *testing.T) {
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
			time.Sleep(time.Millisecond) // the next ones wait for less
			synctest.Wait()
		}
		come(push.Bulk, 100)
		if len(came) != 62 {
			t.Fatalf("%d bulk ones came in, with two places kept of 64", len(came))
		}
		come(push.Critical, 2)
		if len(came) != 64 {
			t.Fatalf("%d came in, with two critical ones", len(came))
		}
		come(push.Default, 20)
		come(push.Critical, 20)
		came = nil
		for range 80 {
			b.release(time.Now().UnixNano())
			synctest.Wait()
		}
		all.Wait()
		if len(came) != 78 {
			t.Fatalf("%d came in behind them", len(came))
		}
		counts := map[push.Priority]int{}
		for i, p := range came {
			if counts[p]++; (i+1)%8 == 0 && i < 40 && p != push.Bulk {
				t.Errorf("the eighth place, %d, was given to %s", i, p)
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

// Who gives up leaves no place taken, nor takes one that is given at that instant.
func TestWhoGivesUpTakesNoPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(1)
		b.enter(0)
		given := make(chan bool)
		go func() { given <- b.acquire(t.Context(), 2) }()
		if <-given {
			t.Fatal("a place was given that is taken")
		}
		if taken, waiting := b.load(); taken != 1 || waiting != 0 {
			t.Errorf("%d taken, %d waiting", taken, waiting)
		}
		b.release(time.Now().UnixNano())
		if !b.acquire(t.Context(), 2) {
			t.Error("the free place was not given")
		}
	})
}

// What shrinks lets nobody in before fewer are inside than it has places then, and what
// grows lets in those who wait, but for the places that are kept.
func TestABulkheadIsResized(t *testing.T) {
	t.Parallel()
	b := newBulkhead(64)
	inside := func(want, waiting int) {
		t.Helper()
		if got, wait := b.load(); got != want || wait != waiting {
			t.Errorf("%d inside and %d before it, want %d and %d", got, wait, want, waiting)
		}
	}
	for range 70 {
		b.enter(rankOf(push.Default))
	}
	inside(62, 8)
	b.resize(32)
	for range 31 {
		b.release(time.Now().UnixNano())
	}
	inside(31, 8) // one of 32 is kept
	b.enter(rankOf(push.Critical))
	inside(32, 8)
	b.resize(0)
	b.release(time.Now().UnixNano())
	inside(31, 8)
	b.resize(64)
	inside(39, 0)
}

// A share is wanted for twice of what is in flight, for all where that is not enough, and
// for less from one renewal to the next where it is not used.
func TestWhatABulkheadWants(t *testing.T) {
	t.Parallel()
	b := newBulkhead(64)
	wants := func(what string, wantHolds, want int) {
		t.Helper()
		if holds, got := b.wants(); holds != wantHolds || got != want {
			t.Errorf("%s: it holds %d and wants %d, want %d and %d", what, holds, got, wantHolds, want)
		}
	}
	wants("idle", 64, 8)
	for range 10 {
		b.enter(1)
	}
	wants("some", 64, 20)
	b.resize(10)
	wants("full", 10, 64)
	b.resize(4)
	wants("more than there may be", 10, 64)
	b.resize(40)
	for _, want := range []int{32, 20, 20} {
		wants("some again", 40, want)
	}
	b.resize(0)
	wants("none", 10, 64)
	b = newBulkhead(1)
	wants("of one", 1, 1)
}
