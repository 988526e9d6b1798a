package worker_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/pause"
)

// What a worker was to wake when it crashed is woken by another one.
func TestAWorkerCrashesWhileItReleases(t *testing.T) {
	t.Parallel()
	const n = 20
	client := realRedis(t)
	r := newRig(t, client, hourly)
	var crashes, crashed atomic.Bool
	redisGone := &failing{match: func(cmd redis.Cmder) bool {
		if crashed.Load() {
			return true
		}
		// the first of what is held are woken
		crashed.Store(crashes.Load() && hasArg(cmd, "first"))
		return false
	}}
	redisGone.left.Store(1 << 32)
	own := redistest.Another(t, client)
	redistest.Hook(own, redisGone)
	shared := r.options.Queue
	r.options.Queue = own
	log := r.logs()
	stop := r.start()
	hold := pause.Pause{App: "shop"}
	r.pause(hold, log)
	for i := range n {
		one := to(fmt.Sprint("held-", i), apple)
		one.User = fmt.Sprint("u", i)
		if i%2 == 0 {
			one.Priority = push.Bulk
		}
		r.enqueue(one)
	}
	r.asleep(n)
	crashes.Store(true)
	r.resume(hold)
	wait(t, crashed.Load)
	r.options.Queue = shared
	r.start()
	resumed := time.Now()
	r.settled(n)
	if took := time.Since(resumed); took > prompt {
		t.Errorf("it takes %s", took)
	}
	stop()
}

// However much stands back about when a pause ends, by whichever worker's view of
// the pauses, comes back.
func TestWhatStandsBackWhenAPauseEnds(t *testing.T) {
	const rounds, about = 2, 100 * time.Millisecond
	r := newRig(t, oneRedis(t), unlimited)
	log := r.logs()
	r.start()
	r.start()
	hold := pause.Pause{App: "shop"}
	n := 0
	for range rounds {
		r.pause(hold, log)
		began := time.Now()
		resumed := false
		for time.Since(began) < 3*about {
			r.enqueue(to(fmt.Sprint("held-", n), apple))
			n++
			if !resumed && time.Since(began) > about {
				resumed = true
				r.resume(hold)
			}
		}
		ended := time.Now()
		r.settled(n)
		if took := time.Since(ended); took > prompt {
			t.Errorf("it takes %s", took)
		}
	}
	t.Logf("%d", n)
}
