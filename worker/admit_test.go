package worker

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

func TestNextAsk(t *testing.T) {
	t.Parallel()
	const most = 2 * time.Second
	for name, c := range map[string]struct {
		left        time.Duration
		again       bool
		wait, ahead time.Duration
	}{
		"new, far":           {1500 * time.Millisecond, false, time.Second, most},
		"new, near":          {400 * time.Millisecond, false, 350 * time.Millisecond, beforeSlot},
		"new, the first":     {100 * time.Millisecond, false, settled, beforeSlot},
		"new, due at once":   {20 * time.Millisecond, false, 18 * time.Millisecond, beforeSlot},
		"again, moved back":  {1500 * time.Millisecond, true, time.Second, most},
		"again, near":        {100 * time.Millisecond, true, 50 * time.Millisecond, most},
		"again, due at once": {20 * time.Millisecond, true, 10 * time.Millisecond, most},
	} {
		decision := throttle.Decision{Status: throttle.Deferred, Left: c.left}
		if c.again {
			decision.Slot = time.Unix(1, 0)
		}
		if wait, ahead := nextAsk(&decision, most); wait != c.wait || ahead != c.ahead {
			t.Errorf("%s: in %s, %s ahead", name, wait, ahead)
		}
	}
}

// TestAcceptedFirstAcrossCategories has notifications of three categories share a gap that
// is shorter than the time that those accepted earlier take to ask. Places are then free
// between the slots of others, and too soon.
func TestAcceptedFirstAcrossCategories(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const maxWait, longestWay = 2 * time.Second, 80 * time.Millisecond
		limiter := throttle.NewMemory(throttle.MemoryOptions{})
		general := throttle.Scope{Name: throttle.General, Policy: throttle.Policy{MinGap: 25 * time.Millisecond}}
		rng := rand.New(rand.NewPCG(1, 2))
		type notification struct {
			request  throttle.Request
			asks     int
			admitted time.Time
		}
		for run := range 200 {
			all, wg := make([]notification, 6), sync.WaitGroup{}
			for i := range all {
				n, way := &all[i], time.Duration(rng.Int64N(int64(longestWay)))
				n.request = throttle.Request{
					User: fmt.Sprint("u", run), ID: fmt.Sprint("n", i), Category: string(rune('a' + rng.IntN(3))),
					Accepted: time.Now(), Scopes: []throttle.Scope{general}, Horizon: time.Hour,
				}
				wg.Go(func() {
					time.Sleep(way)
					ahead := maxWait
					for {
						n.request.Wait = ahead
						n.asks++
						decision, err := limiter.Acquire(t.Context(), n.request)
						if err != nil {
							t.Error(err)
							return
						}
						if decision.Status == throttle.Granted {
							n.admitted = decision.At
							return
						}
						var left time.Duration
						left, ahead = nextAsk(&decision, maxWait)
						time.Sleep(left)
					}
				})
				time.Sleep(time.Duration(rng.Int64N(int64(10 * time.Millisecond))))
			}
			wg.Wait()
			all = slices.DeleteFunc(all, func(n notification) bool { return n.asks == 1 })
			slices.SortFunc(all, func(a, b notification) int {
				return cmp.Or(cmp.Compare(a.request.Category, b.request.Category), a.request.Accepted.Compare(b.request.Accepted))
			})
			for i := range all[1:] {
				before, n := &all[i], &all[i+1]
				if before.request.Category == n.request.Category && before.admitted.After(n.admitted) {
					t.Errorf("run %d: %s was accepted before %s and is admitted %v after it", run, before.request.ID, n.request.ID, before.admitted.Sub(n.admitted))
				}
			}
			time.Sleep(time.Minute)
		}
	})
}
