//go:build unix

package loadtest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/push"
)

// The feeder enqueues the whole plan even if notifications are lost, so that the judge counts the
// losses.
func TestFeederContinuesAfterLosses(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]func(p plan, i int) bool{
		"one":                  func(_ plan, i int) bool { return i == 4 },
		"more than the window": func(p plan, i int) bool { return i >= 20 && i < 60 && !p.putOff(i) },
		"more than half":       func(_ plan, i int) bool { return i < 70 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { feedWithLosses(t, lost) })
		})
	}
}

func feedWithLosses(t *testing.T, lost func(plan, int) bool) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	l := newLog(newPlan(least, 0))
	time.Sleep(time.Millisecond) // the log's 0 is "not yet"
	var mu sync.Mutex
	admitted, want := map[string]time.Time{}, 0
	for i := range l.notifications {
		if lost(l.plan, i) {
			want++
		}
	}
	enqueue := func(_ context.Context, all []*push.Notification) []push.Result {
		time.Sleep(time.Millisecond)
		for _, n := range all {
			i, _ := l.index(n.ID)
			if lost(l.plan, i) {
				continue
			}
			after := time.Millisecond
			if l.putOff(i) {
				after += []time.Duration{limits.MinGap, limits.Rates[0].Period}[i%round-1]
			}
			time.AfterFunc(after, func() {
				mu.Lock()
				defer mu.Unlock()
				admitted[n.ID] = time.Now()
				take(l, i, time.Now())
			})
		}
		return make([]push.Result, len(all))
	}
	f := &feeder{log: l, enqueue: enqueue, replaced: l.half}
	if err := f.feed(ctx); err != nil || ctx.Err() != nil {
		t.Fatalf("%v, %v", err, ctx.Err())
	}
	time.Sleep(2 * limits.Rates[0].Period) // the last notifications arrive
	synctest.Wait()
	if i := slices.Index(l.handed, 0); i >= 0 {
		t.Errorf("notification %d is not enqueued", i)
	}
	v := l.judge(admitted, l.several(), f.paced)
	if v.lost != want || v.violations != 0 || len(v.lateness) == 0 {
		t.Errorf("%+v, want %d lost", v, want)
	}
	report := Report{Lost: v.lost}
	if err := report.Err(); err == nil || !strings.Contains(err.Error(), "lost") {
		t.Error(err)
	}
}
