package worker_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/pause"
)

func collapsing(id, category string) *push.Notification {
	n := to(id)
	n.CollapseKey, n.Category = "score", category
	return n
}

// A newer notification with the same collapse key takes over the slot of the older notification, which
// ends.
func TestCollapseTakesOverSlot(t *testing.T) {
	r, o := tuned(t, oneRedis(t), every(time.Hour), nil)
	r.start()
	r.enqueue(to("first"))
	r.settled(1)
	r.enqueue(collapsing("older", ""))
	slot := r.deferred("older").Until
	r.enqueue(to("between"))
	r.deferred("between")
	r.enqueue(collapsing("newer", ""))
	r.deferred("newer")
	if line := r.timeline("u1").Bookings; len(line) != 2 || line[0].ID != "newer" || line[0].Slot.Sub(slot).Abs() > 50*time.Millisecond || line[1].ID != "between" {
		t.Errorf("there wait %+v, want the newer one at %s and the one behind", line, slot)
	}
	claim := shardKey(r.client, "collapse:shop/u1/score")
	if life := r.client.PTTL(t.Context(), claim).Val(); life < 2*push.DefaultRetention {
		t.Errorf("the claim lives for %s, and its notification waits", life)
	}
	r.let(o)
	counts := r.settled(4)
	if counts.Ended[push.Superseded] != 1 || counts.Ended[push.Delivered] != 3 || r.record("older").State != push.Superseded {
		t.Errorf("counts %+v, older %+v", counts, r.record("older"))
	}
	if life := r.client.PTTL(t.Context(), claim).Val(); life <= 0 || life > push.DefaultRetention {
		t.Errorf("the claim lives for %s after the end", life)
	}
}

// A newer notification that is paused does not take over the older one's slot, which is given back.
func TestPausedSuccessorTakesOverNoSlot(t *testing.T) {
	r := newRig(t, oneRedis(t), limits.New(every(time.Hour), nil))
	log := r.logs()
	r.start()
	r.enqueue(to("first"))
	r.settled(1)
	r.enqueue(collapsing("older", ""))
	r.deferred("older")
	r.pause(pause.Pause{App: "shop", By: "ada"}, log)
	r.enqueue(collapsing("newer", ""))
	r.status("newer", inspect.ForPause)
	wait(t, func() bool { return len(r.timeline("u1").Bookings) == 0 })
	if counts := r.settled(2); counts.Ended[push.Superseded] != 1 {
		t.Errorf("counts %+v", counts)
	}
}

// A slowLimiter withholds the first answer about one notification until let is closed.
type slowLimiter struct {
	throttle.Planner
	id            string
	once          sync.Once
	answered, let chan struct{}
}

func (l *slowLimiter) Acquire(ctx context.Context, r throttle.Request) (throttle.Decision, error) {
	decision, err := l.Planner.Acquire(ctx, r)
	if r.ID == l.id {
		l.once.Do(func() {
			close(l.answered)
			<-l.let
		})
	}
	return decision, err
}

// An older notification that is claimed when the newer one comes keeps its slot until its next visit, and
// ends then. The newer notification waits for its own slot.
func TestClaimedNotificationIsSupersededAtNextVisit(t *testing.T) {
	r, o := tuned(t, oneRedis(t), throttle.Policy{MinGap: time.Hour}, nil)
	limiter := &slowLimiter{Planner: r.limiter, id: "older", answered: make(chan struct{}), let: make(chan struct{})}
	r.options.Limiter = limiter
	r.start()
	r.enqueue(to("first"))
	r.settled(1)
	r.enqueue(collapsing("older", ""))
	<-limiter.answered
	r.enqueue(collapsing("newer", ""))
	r.deferred("newer")
	close(limiter.let)
	r.deferred("older")
	if line := r.timeline("u1").Bookings; len(line) != 2 || line[0].ID != "older" || line[1].ID != "newer" {
		t.Errorf("there wait %+v", line)
	}
	r.let(o)
	if counts := r.settled(3); counts.Ended[push.Superseded] != 1 || len(r.pushed("newer")) != 1 || len(r.pushed("older")) != 0 {
		t.Errorf("counts %+v", counts)
	}
}
