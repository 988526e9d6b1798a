package worker_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// While Redis takes no writes nothing is sent, which could not be recorded, and
// afterwards each goes out once.
func TestNothingIsSentThatCannotBeRecorded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refuse, allow string // of the setting
		setting       string
		cause         string
	}{
		"out of memory":  {"1mb", "0", "maxmemory", "OOM"},
		"without copies": {"1", "0", "min-replicas-to-write", "NOREPLICAS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			client := redistest.Connect(t, server.Options())
			r := newRig(t, client, unlimited)
			log := new(logged)
			r.options.Log = slog.New(slog.NewTextHandler(log, nil))
			r.options.Concurrency, r.options.MaxWaiting, r.options.Lanes = 4, 1, 1
			r.apns.RespondAlways(standin.Answer{Delay: 5 * time.Millisecond})
			const n = 3000
			for i := range n {
				r.enqueue(to(fmt.Sprintf("%04d", i)))
			}
			r.start()
			wait(t, func() bool { return len(r.pushed("")) >= 50 })
			must(t, client.ConfigSet(t.Context(), c.setting, c.refuse).Err())
			before := len(r.pushed(""))
			wait(t, func() bool { return strings.Contains(log.text(), "Redis refuses to write") })
			quiet := -1
			wait(t, func() bool { // until one poll finds nothing new in flight
				last := quiet
				quiet = len(r.pushed(""))
				return last == quiet && r.apns.Count().InFlight == 0
			})
			const inHand = 600 // 512 stand before the gate, and some more are on their way
			if quiet-before > inHand {
				t.Fatalf("%d of %d were sent, though nothing can be recorded", quiet-before, n)
			}
			must(t, client.ConfigSet(t.Context(), c.setting, c.allow).Err())
			r.apns.Recover()
			counts := r.settled(n)
			if all := len(r.pushed("")); counts.Ended[push.Delivered] != n || all != n {
				t.Errorf("%d delivered, %d pushed, want %d each", counts.Ended[push.Delivered], all, n)
			}
			if got := strings.Count(log.text(), "Redis refuses to write"); got != 1 || !strings.Contains(log.text(), c.cause) {
				t.Errorf("said %d times: %s", got, log.text())
			}
			wait(t, func() bool { return strings.Contains(log.text(), "Redis writes again") })
		})
	}
}
