package worker_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/queue"
)

// A line is a limiter that has all wait for an hour, until they come for the second
// time. Who comes as "mover" has moved them.
type line struct {
	throttle.Planner
	mu    sync.Mutex
	moved []throttle.Booking
	came  map[string]bool
}

func (l *line) Acquire(_ context.Context, r throttle.Request) (throttle.Decision, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	wait := throttle.Decision{Status: throttle.Deferred, At: now.Add(time.Hour), Left: time.Hour}
	switch {
	case r.ID == "mover":
		wait.Moved = l.moved
		return wait, nil
	case l.came[r.ID]:
		return throttle.Decision{Status: throttle.Granted, At: now}, nil
	}
	l.came[r.ID] = true
	l.moved = append(l.moved, throttle.Booking{ID: r.ID, Slot: now})
	return wait, nil
}

// asleep has so many be put off for an hour.
func asleep(t *testing.T, client redis.UniversalClient, many int) (r *rig, l *line, stop func()) {
	t.Helper()
	r = newRig(t, client, limits.New(every(time.Hour), nil))
	l = &line{Planner: r.limiter, came: map[string]bool{}}
	r.options.Limiter = l
	stop = r.start()
	r.enqueueAll(many, "n", func(*push.Notification) {})
	wait(t, func() bool { return r.jobs()[queue.JobPutOff] == int64(many) })
	return r, l, stop
}

func (r *rig) jobs() map[queue.JobState]int64 {
	jobs, err := queue.ReadJobs(r.t.Context(), r.client, r.records)
	must(r.t, err)
	return queue.Sum(jobs)[push.Default.Queue()]
}

// All whom a call has moved come back: a page of a long line, which nobody else tells of.
func TestAPageOfALineComesBack(t *testing.T) {
	t.Parallel()
	const many = 200
	r, _, _ := asleep(t, realRedis(t), many)
	r.enqueue(to("mover"))
	if counts := r.settled(many); counts.Ended[push.Delivered] != many {
		t.Errorf("ended %+v", counts.Ended)
	}
}
