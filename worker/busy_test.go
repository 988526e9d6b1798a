package worker

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/queue"
	"github.com/pushpace/pushpace/worker/route"
)

// A reply is an error that Redis answers.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

const outOfMemory = reply("OOM command not allowed when used memory > 'maxmemory'.")

// What is not sent since it could not be recorded says so, and blames no provider.
func TestWhatIsTurnedAwaySaysWhy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		full := route.New(route.Config{Senders: map[string]map[push.Platform]providers.Sender{"shop": {push.APNs: nil}}, Concurrency: 1}).Of("shop")[push.APNs].Bulkhead
		route.Acquire(t.Context(), []*route.Bulkhead{full}, push.Default)
		waiting, leave := context.WithCancel(t.Context())
		defer leave()
		for range 2 * route.InHand(1) {
			go route.Acquire(waiting, []*route.Bulkhead{full}, push.Default)
		}
		synctest.Wait() // as many wait as may
		for name, c := range map[string]struct {
			refused bool
			needs   []*route.Bulkhead
			want    store.Why
		}{
			"nothing":              {false, nil, ""},
			"busy":                 {false, []*route.Bulkhead{full}, store.ProviderBusy},
			"not written":          {true, nil, store.RedisRefuses},
			"busy and not written": {true, []*route.Bulkhead{full}, store.RedisRefuses},
		} {
			at := queue.NewServer(queue.Config{Records: new(store.Shard), Hands: queue.NewHands(8), RedisLog: slog.New(slog.DiscardHandler)})
			if c.refused {
				_ = at.Persist(t.Context(), time.Millisecond, func() error { return outOfMemory })
			}
			var got store.Why
			if to, away := new(admission).busy(&delivery{Notification: new(push.Notification), at: at, queue: "q", needs: c.needs}).(back); away {
				got = to.Why
			}
			if got != c.want {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
		}
	})
}
