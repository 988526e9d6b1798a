package worker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// A timeline key of the wrong type delays only its user. The log reports it once, and each job contains
// the reason.
func TestUncheckedUserDelaysNoOtherUser(t *testing.T) {
	t.Parallel()
	const n = 5
	client := redistest.Own(t)
	r := newRig(t, client, limits.New(throttle.Policy{Rates: []throttle.Rate{{Count: n, Period: time.Minute}}}, nil))
	limiter := throttle.WithOutage(r.limiter, throttle.Open, throttle.OutageOptions{})
	r.options.Limiter = limiter
	log := r.logs()
	must(t, client.Set(t.Context(), "pushpace:{shop/u1}:sent", "not ours", 0).Err())
	for i := range n {
		r.enqueue(to(fmt.Sprint("held-", i)))
		other := to(fmt.Sprint("flows-", i))
		other.User = "u2"
		r.enqueue(other)
	}
	r.start()
	if counts := r.settled(n); counts.Ended[push.Delivered] != n {
		t.Errorf("counts %+v", counts)
	}
	r.asleep(n)
	if lines := strings.Count(log.String(), "the limits of a user cannot be checked"); lines != 1 || !strings.Contains(log.String(), "WRONGTYPE") {
		t.Errorf("the log says\n%s", log.String())
	}
	if stats := limiter.Stats(); stats.Outages > 0 {
		t.Errorf("%+v", stats)
	}
	if message := client.HGet(t.Context(), queueKey(client, r.record("held-0").Queue, "t:held-0"), "last").Val(); !strings.Contains(message, "WRONGTYPE") {
		t.Error("its job does not say why it waits")
	}
	r.status("held-0", inspect.ForTimeline)
	must(t, client.Del(t.Context(), "pushpace:{shop/u1}:sent").Err())
	if counts := r.settled(2 * n); counts.Ended[push.Delivered] != 2*n {
		t.Errorf("counts %+v", counts)
	}
}
