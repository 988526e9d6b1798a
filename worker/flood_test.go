package worker_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
)

// 1,500 rejected notifications of one app leave memory in Redis: the notifications of a second app are
// accepted and delivered, and the sums are exact.
func TestRejectedNotificationsDoNotFillRedis(t *testing.T) {
	t.Parallel()
	const rejected, bound = 1500, 100
	client := redistest.Start(t).Client(t)
	r := newRig(t, client, unlimited)
	r.options.DeadLetters = bound
	log := r.logs()
	r.start()
	r.enqueue(to("before"))
	r.settled(1)
	limit := usedMemory(t, r) + 3<<20 // dead letters of all of them would be 5 MB
	must(t, client.ConfigSet(t.Context(), "maxmemory", strconv.FormatInt(limit, 10)).Err())
	body := strings.Repeat("x", 2000)
	for batch := range rejected / 100 {
		r.enqueueAll(fmt.Sprint("rejected-", batch), 100, func(_ int, n *push.Notification) {
			n.App, n.User, n.Body = "apple", "u1", body
		}, google) // the app has no such provider
		other := to(fmt.Sprint("other-", batch))
		other.User = fmt.Sprint("u", batch)
		r.enqueue(other)
		r.settled(1 + (batch+1)*101)
	}
	counts, err := r.records.Counts(t.Context())
	must(t, err)
	if counts.Accepted != rejected+rejected/100+1 || counts.Ended[push.Rejected] != rejected || counts.Ended[push.Delivered] != rejected/100+1 || counts.Letters != bound {
		t.Errorf("counts %+v", counts)
	}
	if text := log.String(); strings.Contains(text, "OOM") || strings.Contains(text, "full") {
		t.Errorf("Redis was full: %s", text)
	}
}

func usedMemory(t *testing.T, r *rig) int64 {
	t.Helper()
	info, err := r.client.Info(t.Context(), "memory").Result()
	must(t, err)
	_, rest, _ := strings.Cut(info, "\r\nused_memory:")
	text, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.ParseInt(text, 10, 64)
	must(t, err)
	return n
}

// A notification of a second user leaves while most of the first user's flood is still on the queue. In
// the end the whole flood is delivered, waits in its line, or is rejected.
func TestFloodDelaysNoOtherUser(t *testing.T) {
	r := newRig(t, oneRedis(t), limits.New(every(time.Hour), nil))
	r.options.MaxBooked = 20
	const flood = 4000
	r.enqueueAll("flood", flood, func(i int, n *push.Notification) { n.User = fmt.Sprint("flooded ", i%2) })
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
