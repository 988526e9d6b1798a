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

// checkDemo runs the demo with --json and judges its summary. On a busy machine some may
// be received too soon or still wait at the end: the demo says so, and ends with its
// status for that, which .ci/run does not accept.
func checkDemo(t *testing.T, args ...string) {
	t.Helper()
	p := rig.Start(t, rig.Setup{}, append([]string{"demo", "--json"}, args...)...)
	status := p.Wait(t)
	var s map[string]any
	if err := json.Unmarshal([]byte(p.Stdout.String()), &s); err != nil {
		t.Fatalf("%v: %s%s", err, &p.Stdout, &p.Stderr)
	}
	number := func(key string) float64 {
		n, ok := s[key].(float64)
		if !ok {
			t.Errorf("%s is %v", key, s[key])
		}
		return n
	}
	sum := 0.0
	for _, state := range []string{"delivered", "undeliverable", "rejected", "exhausted", "expired", "cancelled", "superseded", "waiting"} {
		sum += number(state)
	}
	if got := number("accepted"); got != sum || got < 50 {
		t.Errorf("accepted %v, the states sum up to %v", got, sum)
	}
	if number("violations") > 0 || number("waiting") > 0 {
		if status != rig.Violated {
			t.Errorf("exit status %d, want %d", status, rig.Violated)
		}
		t.Logf("%s%s", &p.Stdout, &p.Stderr)
	} else if status != rig.Done || p.Stderr.String() != "" {
		t.Errorf("exit status %d: %s", status, &p.Stderr)
	}
	for key, want := range map[string]float64{"malformed": 1, "expired": 1, "undeliverable": 3, "lost": 0} {
		if got := number(key); got != want {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
	if number("deferred") < 5 || number("dead_tokens") < 3 {
		t.Errorf("got %s", &p.Stdout)
	}
	late, _ := s["lateness_ms"].(map[string]any)
	for _, key := range []string{"p50", "p99"} {
		if _, ok := late[key].(float64); !ok {
			t.Errorf("lateness_ms: %v", s["lateness_ms"])
		}
	}
}

func TestDemoOnRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	// The demo must leave the keys of other databases alone.
	options := server.Options()
	options.DB = 15
	other := redis.NewClient(options)
	t.Cleanup(func() { _ = other.Close() })
	rig.Must(t, other.Set(t.Context(), shard.QueuesKey, "theirs", 0).Err())
	checkDemo(t, "--redis", server.Addr())
	if got, err := other.Get(t.Context(), shard.QueuesKey).Result(); got != "theirs" {
		t.Errorf("%q, %v", got, err)
	}
	keyspace, err := other.Info(t.Context(), "keyspace").Result()
	if err != nil || strings.Count(keyspace, "db") != 1 {
		t.Errorf("the demo leaves keys: %s, %v", keyspace, err)
	}
}

func TestDemoNeedsAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Args("--databases", "1"))
	p := rig.Start(t, rig.Setup{}, "demo", "--redis", server.Addr())
	if got := p.Wait(t); got != rig.Failed {
		t.Errorf("exit status %d, want %d", got, rig.Failed)
	}
	if got := p.Stderr.String(); !strings.Contains(got, "name another Redis") {
		t.Errorf("standard error: %s", got)
	}
}

// Without a terminal the demo tells a line a second, and a summary at the end.
func TestDemoForPeople(t *testing.T) {
	t.Parallel()
	p := rig.Start(t, rig.Setup{}, "demo")
	if got := p.Wait(t); got != rig.Done && got != rig.Violated {
		t.Errorf("exit status %d: %s", got, &p.Stderr)
	}
	live := p.Stderr.String()
	if strings.Count(live, "keeps nothing") != 1 || strings.Count(live, "waiting") < 5 || strings.Contains(live, "\x1b") {
		t.Errorf("standard error: %q", live)
	}
	if !strings.Contains(live, "s  sam gets: Message 1\n") || !strings.Contains(live, "s  sam gets: Message 10\n") {
		t.Errorf("the burst is not shown: %s", live)
	}
	if got := p.Stdout.String(); !strings.Contains(got, "\ndelivered ") || !strings.Contains(got, " limits broken (± 50ms on the way), 0 lost") {
		t.Errorf("standard output: %s\nstandard error: %s", got, live)
	}
}
