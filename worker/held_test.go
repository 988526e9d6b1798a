package worker_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// enqueueRanked enqueues n notifications to APNs, each to a user of its own, whose
// priorities take turns.
func (r *rig) enqueueRanked(n int) {
	r.t.Helper()
	ranks := []push.Priority{push.Bulk, push.Default, push.Critical}
	var all sync.WaitGroup
	const producers = 16
	for p := range producers {
		all.Go(func() {
			for i := p; i < n; i += producers {
				note := to(fmt.Sprintf("%s-%d", ranks[i%len(ranks)], i), devices(i, apple)...)
				note.User, note.Priority = note.ID, ranks[i%len(ranks)]
				if _, err := r.producer.Enqueue(r.t.Context(), note); err != nil {
					r.t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// wakes are the IDs of the jobs that are woken, in their order.
type wakes struct {
	mu  sync.Mutex
	ids []string
}

func (*wakes) DialHook(next redis.DialHook) redis.DialHook { return next }
func (w *wakes) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		w.note(cmd, err)
		return err
	}
}
func (w *wakes) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			w.note(cmd, cmd.Err())
		}
		return err
	}
}

// note notes whom a call wakes: EVALSHA, the script, so many keys, of which the second is
// what a route holds; the last of its reply are the IDs.
func (w *wakes) note(cmd redis.Cmder, err error) {
	args := cmd.Args()
	script, ok := cmd.(*redis.Cmd)
	if err != nil || !ok || len(args) < 5 || !strings.HasSuffix(fmt.Sprint(args[4]), ":held:shop/apns") {
		return
	}
	reply, _ := script.Slice()
	if len(reply) != 4 {
		return // it held some
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	ids, _ := reply[3].([]any)
	for _, id := range ids {
		w.ids = append(w.ids, fmt.Sprint(id))
	}
}

// After a provider was down each notification comes back once, the critical ones first, and so
// it is after a second failure. The wait costs no attempt. worker/route tests how fast they come.
func TestWhatWasHeldReturns(t *testing.T) {
	t.Parallel()
	const n = 900
	const most = 16 // in flight
	client, woken := realRedis(t), new(wakes)
	redistest.Hook(client, woken)
	r := newRig(t, client, hourly)
	r.options.Concurrency = most
	r.hasten(time.Second, 0)
	down := standin.Answer{Status: http.StatusServiceUnavailable}
	r.apns.RespondAlways(down)
	r.start()
	began := time.Now()
	r.enqueueRanked(n)
	r.asleep(n)
	failed, away := r.apns.Count().Received, time.Since(began)
	r.apns.Recover()
	wait(t, func() bool { return r.apns.Ledger().Len() > n/4 })
	r.apns.RespondAlways(down)
	began = time.Now()
	wait(t, r.seen.isBroken)
	var sent int
	wait(t, func() bool { sent = r.apns.Ledger().Len(); return r.apns.Count().InFlight == 0 })
	r.asleep(int64(n - sent))
	again := r.apns.Count().Received - int64(sent)
	away += time.Since(began)
	r.apns.Recover()
	counts := r.settled(n)
	if counts.Ended[push.Delivered] != n || r.archived() != 0 {
		t.Errorf("counts %+v", counts)
	}

	entries := r.pushed("")
	seen := map[string]bool{}
	for _, e := range entries {
		seen[e.Notification] = true
	}
	if len(entries) != n || len(seen) != n {
		t.Errorf("%d pushes of %d notifications, want %d", len(entries), len(seen), n)
	}
	// They are sent in another order where the machine stalls: what is critical and was
	// pulled then stays away for some seconds. One at a time is drawn from all to see
	// whether the provider works.
	critical, bulk := map[string]bool{}, 0
	woken.mu.Lock()
	defer woken.mu.Unlock()
	for _, id := range woken.ids {
		switch id[:4] {
		case "crit":
			critical[id] = true
		case "bulk":
			if len(critical) < n/3*9/10 {
				bulk++
			}
		}
	}
	if len(critical) < n/3*9/10 || bulk > n/3/10 {
		t.Errorf("%d critical ones were woken, %d bulk ones before most of them", len(critical), bulk)
	}
	// A breaker opens after ten failures and what was in flight, and then one fails a second.
	if looks := int64(2*(10+most+60) + 2*int(away/time.Second)); failed+again > looks {
		t.Errorf("%d attempts have failed, want at most %d", failed+again, looks)
	}
}
