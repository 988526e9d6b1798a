package worker_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker"
	"github.com/pushpace/pushpace/worker/control"
)

// apart are limits under which what waits goes back to the queue for its slot.
var apart = limits.New(throttle.Policy{MinGap: 3 * time.Second}, nil)

func (s *seen) lateness() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.late)
}

// putOff has the user get one, and then another, which waits for its slot.
func (r *rig) putOff(user string, target push.Target) {
	r.t.Helper()
	for i := range 2 {
		n := to(fmt.Sprintf("%s-%d", user, i), target)
		n.User = user
		r.enqueue(n)
		if i == 0 {
			wait(r.t, func() bool { return len(r.pushed(n.ID)) == 1 })
		} else {
			r.deferred(n.ID)
		}
	}
}

// A tap is a meter of which units come until it is shut.
type tap struct{ shut atomic.Bool }

func (m *tap) Take(_ context.Context, _ string, _ meter.Spec, a meter.Ask) (meter.Answer, error) {
	if m.shut.Load() {
		return meter.Answer{Left: time.Second}, nil
	}
	return meter.Answer{Units: a.Least}, nil
}

// What was over quota at its slot is not late: the quota has held it.
func TestWhatAQuotaHeldIsNotLate(t *testing.T) {
	t.Parallel()
	r := newRig(t, realRedis(t), apart)
	m := new(tap)
	r.options.Meter = m
	r.options.Quotas = map[string]map[push.Platform]worker.Quota{"shop": {push.FCM: quota("fcm/demo", throttle.Rate{Count: 100, Period: time.Second}, 10)}}
	r.start()
	n := 0
	for ; len(r.seen.lateness()) == 0; n += 2 { // a busy machine may have to ask twice, which is not told
		r.putOff(fmt.Sprint("paced-", n), apple)
		r.settled(n + 2)
	}
	before := r.seen.lateness()
	r.putOff("held", google)
	m.shut.Store(true)
	r.status("held-1", control.ForQuota)
	m.shut.Store(false)
	r.settled(n + 2)
	if late := r.seen.lateness(); len(late) != len(before) {
		t.Errorf("late are %v, and were %v of those that their limit alone held", late, before)
	}
}
