package worker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/pause"
)

// A full line rejects a new notification. A notification that is critical, was requeued or was held by a
// pause waits without a slot.
func TestFullLineRejectsNewNotification(t *testing.T) {
	const most = 3
	r := newRig(t, oneRedis(t), limits.New(every(time.Hour), nil))
	r.options.MaxBooked = most
	log := r.logs()
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
	hold := pause.Pause{App: "shop", By: "ada"}
	r.pause(hold, log)
	r.enqueue(to("held"))
	r.status("held", inspect.ForPause)
	r.resume(hold)
	r.deferred("held")
	if bookings := r.timeline("u1").Bookings; len(bookings) != most {
		t.Errorf("%d hold slots: %+v", len(bookings), bookings)
	}
}
