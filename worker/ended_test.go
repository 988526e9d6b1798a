package worker_test

import (
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/push"
)

// At the level debug the log has one line for each notification that ends, and
// no token; at others it has none.
func TestDebugTellsOfEachEnd(t *testing.T) {
	overRedis(t, func(t *testing.T, client redis.UniversalClient) {
		for i, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo} {
			r := newRig(t, client, unlimited)
			log := new(logged)
			r.options.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level}))
			r.enqueue(to("good" + level.String()))
			dead := to("gone" + level.String())
			dead.Targets[0].Token = "deaddead"
			r.enqueue(dead)
			stop := r.start()
			r.settled(2 * (i + 1))
			stop()
			for name, state := range map[string]push.State{"good": push.Delivered, "gone": push.Undeliverable} {
				line := regexp.MustCompile(`level=DEBUG msg="notification ended" id=` + name + level.String() + ` app=\S+ platforms=\[apns\] outcome=` + string(state) + ` ms=\d+\n`)
				want := 0
				if level == slog.LevelDebug {
					want = 1
				}
				if got := len(line.FindAllString(log.text(), -1)); got != want {
					t.Errorf("%s at %s: %d lines, want %d: %s", name, level, got, want, log.text())
				}
			}
			if strings.Contains(log.text(), "deaddead") {
				t.Errorf("a token is in the log: %s", log.text())
			}
		}
	})
}
