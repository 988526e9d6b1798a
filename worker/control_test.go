package worker_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
)

// deferred waits until a limit has deferred the notification and its job is on the queue.
func (r *rig) deferred(id string) *store.Record {
	r.t.Helper()
	wait(r.t, func() bool {
		if r.record(id).Deferrals == 0 {
			return false
		}
		status, err := r.inspector().Status(r.t.Context(), push.Ref{ID: id})
		must(r.t, err)
		return status.Job == "retry"
	})
	return r.record(id)
}

func (r *rig) inspector() *inspect.Inspector {
	return inspect.New(r.client, r.records, r.limiter, r.options.Limits)
}

func (r *rig) control() *control.Control {
	return r.rests(control.New(r.client, r.records, r.limiter, r.options.Limits))
}

// cancel cancels a notification that carries no others.
func (r *rig) cancel(ref push.Ref) error {
	_, err := r.control().Cancel(r.t.Context(), ref, 0)
	return err
}

// rests makes the test's end wait for the control's delayed work.
func (r *rig) rests(c *control.Control) *control.Control {
	r.t.Cleanup(func() { c.Rest(context.Background()) })
	return c
}

// A notification can be cancelled seconds before its slot.
func TestCancelShortlyBeforeSlotSucceeds(t *testing.T) {
	r := newRig(t, oneRedis(t), limits.New(throttle.Policy{MinGap: 8 * time.Second}, nil))
	r.start()
	r.enqueue(to("sent"))
	r.settled(1)
	r.enqueue(to("unwanted"))
	r.deferred("unwanted")
	must(t, r.cancel(push.Ref{ID: "unwanted"}))
	r.enqueue(to("next"))
	if counts := r.settled(3); counts.Ended[push.Cancelled] != 1 || counts.Ended[push.Delivered] != 2 || len(r.pushed("unwanted")) != 0 {
		t.Errorf("counts %+v", counts)
	}
}

// Concurrent requeues of dead letters, which are rejected again, lose no notification.
func TestConcurrentRequeuesLoseNoNotification(t *testing.T) {
	r := newRig(t, oneRedis(t), unlimited)
	r.apns.RespondAlways(standin.Answer{Status: http.StatusRequestEntityTooLarge, Delay: 5 * time.Millisecond})
	r.start()
	const n = 10
	for i := range n {
		r.enqueue(to(fmt.Sprintf("back-%d", i)))
	}
	r.settled(n)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for range 8 {
				for i := range n {
					// it may have no dead letter at the moment, or still have its last job
					_ = r.producer.Requeue(context.Background(), fmt.Sprintf("back-%d", i))
				}
			}
		})
	}
	wg.Wait()
	counts := r.settled(n)
	wait(t, func() bool { audit, err := r.inspector().Audit(t.Context()); return err == nil && audit.Queued == 0 })
	if counts, _ = r.records.Counts(t.Context()); counts.Accepted != n || counts.Waiting() != 0 || counts.Ended[push.Rejected] != n {
		t.Errorf("counts %+v", counts)
	}
	for i := range n {
		r.letter(fmt.Sprintf("back-%d", i))
	}
}
