package worker

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
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
		const longestWay = 80 * time.Millisecond
		limiter, err := throttle.New(redistest.InBubble(t), throttle.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer limiter.Close()
		general := throttle.Scope{Name: throttle.General, Policy: throttle.Policy{MinGap: 25 * time.Millisecond}}
		rng := rand.New(rand.NewPCG(1, 2))
		upTo := func(most time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(most))) }
		for run := range 25 {
			var wg sync.WaitGroup
			all := make([]asking, 6)
			for i := range all {
				one, way := &all[i], upTo(longestWay)
				one.Request = throttle.Request{
					User: fmt.Sprint("u", run), ID: fmt.Sprint("n", i), Category: string(rune('a' + rng.IntN(3))),
					Accepted: time.Now(), Scopes: []throttle.Scope{general}, Horizon: time.Hour,
				}
				wg.Go(func() {
					time.Sleep(way)
					one.ask(t, limiter)
				})
				time.Sleep(upTo(10 * time.Millisecond))
			}
			wg.Wait()
			before := map[string]asking{}
			for _, one := range all {
				if !one.waited {
					continue
				}
				if last := before[one.Category]; last.admitted.After(one.admitted) {
					t.Errorf("run %d: %s was accepted before %s and is admitted %v after it", run, last.ID, one.ID, last.admitted.Sub(one.admitted))
				}
				before[one.Category] = one
			}
			time.Sleep(time.Minute)
		}
	})
}

// asking is a request on its way to be admitted.
type asking struct {
	throttle.Request
	waited   bool
	admitted time.Time
}

// ask asks until it is admitted, when nextAsk says.
func (a *asking) ask(t *testing.T, limiter throttle.Planner) {
	const most = 2 * time.Second
	for ahead := most; ; a.waited = true {
		a.Wait = ahead
		decision, err := limiter.Acquire(t.Context(), a.Request)
		if err != nil {
			t.Error(err)
			return
		}
		if decision.Status == throttle.Granted {
			a.admitted = decision.At
			return
		}
		var left time.Duration
		left, ahead = nextAsk(&decision, most)
		time.Sleep(left)
	}
}
