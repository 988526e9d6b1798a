package worker_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// While Redis refuses writes, nothing is sent, as it could not be recorded. Afterwards each
// notification is sent once.
func TestRefusedWritesStopSending(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := redistest.Connect(t, server.Options())
	r := newRig(t, client, unlimited)
	log := r.logs()
	r.options.Concurrency = 4
	r.apns.RespondAlways(standin.Answer{Delay: 5 * time.Millisecond})
	const n = 900
	for i := range n {
		r.enqueue(to(fmt.Sprintf("%04d", i)))
	}
	r.start()
	wait(t, func() bool { return len(r.pushed("")) >= 50 })
	must(t, client.ConfigSet(t.Context(), "maxmemory", "1mb").Err())
	before := len(r.pushed(""))
	wait(t, func() bool { return strings.Contains(log.String(), "Redis refuses to write") })
	quiet := -1
	wait(t, func() bool { // until one check finds nothing new in flight
		last := quiet
		quiet = len(r.pushed(""))
		return last == quiet && r.apns.Count().InFlight == 0
	})
	const inHand = 600 // 512 wait for a permit, and some more are on their way
	if quiet-before > inHand {
		t.Fatalf("%d of %d were sent, though nothing can be recorded", quiet-before, n)
	}
	must(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	r.apns.Recover()
	counts := r.settled(n)
	if all := len(r.pushed("")); counts.Ended[push.Delivered] != n || all != n {
		t.Errorf("%d delivered, %d pushed, want %d each", counts.Ended[push.Delivered], all, n)
	}
	if got := strings.Count(log.String(), "Redis refuses to write"); got != 1 || !strings.Contains(log.String(), "OOM") {
		t.Errorf("said %d times: %s", got, log.String())
	}
	wait(t, func() bool { return strings.Contains(log.String(), "Redis writes again") })
}

// A sent notification holds its permit until its end is recorded: with one permit, no second notification
// is sent until then.
func TestPermitIsHeldUntilEndIsRecorded(t *testing.T) {
	t.Parallel()
	client := redistest.Own(t)
	r := newRig(t, client, unlimited)
	begun, goOn, first := make(chan struct{}), make(chan struct{}), sync.Once{}
	own := redistest.Another(t, client)
	redistest.Hook(own, redistest.Around(func(_ context.Context, cmds []redis.Cmder, next func() error) error {
		if hasArg(cmds[0], "settle") {
			first.Do(func() { close(begun); <-goOn })
		}
		return next()
	}))
	r.options.Queue, r.options.Concurrency = own, 1
	w := r.run()
	// two targets, so that it is settled by a command of its own; of one route, as others get their permits back
	r.enqueue(to("first", devices(1, apple)[0], devices(2, apple)[0]))
	<-begun
	r.enqueue(to("second", apple))
	key := queueKey(client, push.Default.Queue(), "retry")
	wait(t, func() bool { // the second waits for the permit, or returns to the queue without one
		return statusOf(t, w, "shop", push.APNs).Queued == 1 || client.ZCard(t.Context(), key).Val() == 1 || len(r.pushed("second")) > 0
	})
	if n := len(r.pushed("second")); n != 0 {
		t.Errorf("%d are sent before", n)
	}
	close(goOn)
	if counts := r.settled(2); counts.Ended[push.Delivered] != 2 {
		t.Errorf("%+v", counts)
	}
}

func hasArg(cmd redis.Cmder, want string) bool {
	for _, arg := range cmd.Args() {
		if text, ok := arg.(string); ok && strings.EqualFold(text, want) {
			return true
		}
	}
	return false
}
