package worker

import (
	"log/slog"
	"testing"
	"time"

	"github.com/pushpace/pushpace/worker/queue"
)

// A reply is an error that Redis answers.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

const outOfMemory = reply("OOM command not allowed when used memory > 'maxmemory'.")

// What is not sent since it could not be recorded says so, and blames no provider.
func TestWhatIsTurnedAwaySaysWhy(t *testing.T) {
	t.Parallel()
	full := newGate(1)
	full.waiting.Store(gateWaiting)
	for name, c := range map[string]struct {
		refused bool
		gates   []*gate
		want    Cause
	}{
		"nothing":              {false, nil, ""},
		"busy":                 {false, []*gate{full}, ForProvider},
		"not written":          {true, nil, ForRedis},
		"busy and not written": {true, []*gate{full}, ForRedis},
	} {
		h := &handler{queue: queue.NewServer(queue.Config{RedisLog: slog.New(slog.DiscardHandler)})}
		if c.refused {
			_ = h.queue.Persist(t.Context(), time.Millisecond, func() error { return outOfMemory })
		}
		var got Cause
		if err := h.turnedAway(&delivery{queue: "q", gates: c.gates}, time.Now()); err != nil {
			got = returnedFor(queue.Why(err.Error()))
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
