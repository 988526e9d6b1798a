package worker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
)

// A notification of a second user leaves while most of the first user's flood is still on the queue. In
// the end the whole flood is delivered, waits in its line, or is rejected.
func TestFloodDelaysNoOtherUser(t *testing.T) {
	r := newRig(t, oneRedis(t), limits.New(every(time.Hour), nil))
	r.options.MaxBooked = 20
	const flood = 4000
	var all []*push.Notification
	for i := range flood {
		n := to(fmt.Sprint("flood-", i))
		n.User = fmt.Sprint("flooded ", i%2)
		all = append(all, n)
	}
	r.enqueueTogether(all)
	fresh := to("fresh")
	fresh.User = "another"
	r.enqueue(fresh)
	r.start()
	wait(t, func() bool { return r.record("fresh").State == push.Delivered })
	counts, err := r.records.Counts(t.Context())
	must(t, err)
	t.Logf("%d were rejected before it", counts.Ended[push.Rejected])
	if counts.Ended[push.Rejected] > flood/2 {
		t.Errorf("%d of %d were rejected before it left", counts.Ended[push.Rejected], flood)
	}
	const inLine = 2 * 20 // in the lines
	wait(t, func() bool {
		counts, err = r.records.Counts(t.Context())
		must(t, err)
		return counts.Waiting() <= inLine
	})
	if counts.Ended[push.Delivered] != 3 || counts.Waiting() != inLine || counts.Ended[push.Rejected] != flood-inLine-2 {
		t.Errorf("counts %+v, %d wait", counts, counts.Waiting())
	}
}
