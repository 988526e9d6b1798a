package worker_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
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
		var all []*push.Notification
		for i := range 100 {
			n := to(fmt.Sprintf("rejected-%d-%d", batch, i), google) // the app has no such provider
			n.App, n.Body = "apple", body
			all = append(all, n)
		}
		r.enqueueTogether(all)
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
	if text := log.text(); strings.Contains(text, "OOM") || strings.Contains(text, "full") {
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
