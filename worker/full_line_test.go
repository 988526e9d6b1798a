package worker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/pause"
)

// A full line rejects a new notification. A critical or requeued notification waits without a slot.
func TestFullLineRejectsNewNotification(t *testing.T) {
	const most = 3
	r := newRig(t, oneRedis(t), limits.New(every(time.Hour), nil))
	r.options.MaxBooked = most
	r.start()
	for i := range most + 1 {
		r.enqueue(to(fmt.Sprint("waits-", i)))
	}
	wait(t, func() bool { return len(r.timeline("u1").Bookings) == most })
	r.enqueue(to("refused"))
	critical := to("critical")
	critical.Priority = push.Critical
	r.enqueue(critical)
	r.deferred("critical")
	r.ends("refused")
	if letter := r.letter("refused"); letter.State != push.Rejected || letter.Reason != string(providers.LineFull) {
		t.Errorf("the letter is %+v", letter)
	}
	must(t, r.producer.Requeue(t.Context(), "refused"))
	r.deferred("refused")
	if bookings := r.timeline("u1").Bookings; len(bookings) != most {
		t.Errorf("%d hold slots: %+v", len(bookings), bookings)
	}
}

// After a pause all paused notifications leave within the limit, although only some may hold slots.
func TestResumedNotificationsLeaveDespiteFullLine(t *testing.T) {
	const gap, most, n = 200 * time.Millisecond, 3, 8
	r := newRig(t, oneRedis(t), limits.New(throttle.Policy{MinGap: gap}, nil))
	r.options.MaxBooked = most
	log := r.logs()
	r.start()
	hold := pause.Pause{App: "shop", By: "ada"}
	r.pause(hold, log)
	for i := range n {
		id := fmt.Sprint("held-", i)
		r.enqueue(to(id))
		r.status(id, inspect.ForPause)
	}
	r.resume(hold)
	if counts := r.settled(n); counts.Ended[push.Delivered] != n {
		t.Errorf("counts %+v", counts)
	}
	admissions := r.timeline("u1").Admissions[throttle.General]
	for i := 1; i < len(admissions); i++ {
		if distance := admissions[i].At.Sub(admissions[i-1].At); distance < gap-time.Millisecond {
			t.Errorf("admission %d is %s after the one before; want at least %s", i, distance, gap)
		}
	}
}
