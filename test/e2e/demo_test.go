//go:build e2e && unix

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/test/rig"
)

// bystander writes a key into another database of the server, as another program would. check reports an
// error unless this key is unchanged and the only one.
func bystander(t *testing.T, server *redistest.Server) (check func()) {
	t.Helper()
	options := server.Options()
	options.DB = 15
	other := redis.NewClient(options)
	t.Cleanup(func() { _ = other.Close() })
	rig.Must(t, other.Set(t.Context(), shard.QueuesKey, "theirs", 0).Err())
	return func() {
		t.Helper()
		if got, err := other.Get(t.Context(), shard.QueuesKey).Result(); got != "theirs" {
			t.Errorf("%q, %v", got, err)
		}
		if keyspace, err := other.Info(t.Context(), "keyspace").Result(); err != nil || strings.Count(keyspace, "db") != 1 {
			t.Errorf("keys are left: %s, %v", keyspace, err)
		}
	}
}

func TestDemoOnRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	check := bystander(t, server)
	p := rig.Start(t, rig.Setup{}, "demo", "--json", "--redis", server.Addr())
	status := p.Wait(t)
	var s struct {
		Accepted, Waiting, Violations, Lost, Malformed, Expired, Undeliverable, Deferred int64

		DeadTokens int64              `json:"dead_tokens"`
		Lateness   map[string]float64 `json:"lateness_ms"`
	}
	rig.Must(t, json.Unmarshal([]byte(p.Stdout.String()), &s))
	if status != rig.Done || p.Stderr.String() != "" || s.Accepted < 50 || s.Waiting != 0 || s.Violations != 0 ||
		s.Malformed != 1 || s.Expired != 1 || s.Undeliverable != 3 || s.Lost != 0 || s.Deferred < 5 || s.DeadTokens < 3 || len(s.Lateness) != 2 {
		t.Errorf("exit status %d: %s%s", status, &p.Stdout, &p.Stderr)
	}
	check()
}

// Without a terminal the demo prints a line a second, and a summary at the end.
func TestDemoPrintsSummary(t *testing.T) {
	t.Parallel()
	p := rig.Start(t, rig.Setup{}, "demo")
	if got := p.Wait(t); got != rig.Done {
		t.Errorf("exit status %d: %s", got, &p.Stderr)
	}
	live := p.Stderr.String()
	if strings.Count(live, "keeps nothing") != 1 || strings.Count(live, "waiting") < 5 || strings.Contains(live, "\x1b") {
		t.Errorf("standard error: %q", live)
	}
	if !strings.Contains(live, "s  sam gets: Message 1\n") || !strings.Contains(live, "s  sam gets: Message 10\n") {
		t.Errorf("the burst is not shown: %s", live)
	}
	if got := p.Stdout.String(); !strings.Contains(got, "\ndelivered ") || !strings.Contains(got, " 0 limits broken, 0 lost") {
		t.Errorf("standard output: %s\nstandard error: %s", got, live)
	}
}
