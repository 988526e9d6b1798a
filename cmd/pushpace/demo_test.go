//go:build unix

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
)

// checkDemo runs the demo with --json and judges its summary. On a busy machine some may
// be received too soon or still wait at the end: the demo says so, and ends with its
// status for that, which .ci/run does not accept.
func checkDemo(t *testing.T, args ...string) {
	t.Helper()
	p := start(t, setup{}, append([]string{"demo", "--json"}, args...)...)
	status := p.wait(t, time.Minute)
	var s map[string]any
	if err := json.Unmarshal([]byte(p.stdout.String()), &s); err != nil {
		t.Fatalf("%v: %s%s", err, &p.stdout, &p.stderr)
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
		if status != exitViolated {
			t.Errorf("exit status %d, want %d", status, exitViolated)
		}
		t.Logf("%s%s", &p.stdout, &p.stderr)
	} else if status != exitDone || p.stderr.String() != "" {
		t.Errorf("exit status %d: %s", status, &p.stderr)
	}
	for key, want := range map[string]float64{"malformed": 1, "expired": 1, "undeliverable": 3, "lost": 0} {
		if got := number(key); got != want {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
	if number("deferred") < 5 || number("dead_tokens") < 3 {
		t.Errorf("got %s", &p.stdout)
	}
	late, _ := s["lateness_ms"].(map[string]any)
	for _, key := range []string{"p50", "p99"} {
		if _, ok := late[key].(float64); !ok {
			t.Errorf("lateness_ms: %v", s["lateness_ms"])
		}
	}
}

func TestDemo(t *testing.T) {
	t.Parallel()
	checkDemo(t)
}

func TestDemoOnRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	// Somebody else's database stays as it is.
	options := server.Options()
	options.DB = 15
	other := redis.NewClient(options)
	t.Cleanup(func() { _ = other.Close() })
	if err := other.Set(t.Context(), "asynq:queues", "theirs", 0).Err(); err != nil {
		t.Fatal(err)
	}
	checkDemo(t, "--redis", server.Addr())
	if got, err := other.Get(t.Context(), "asynq:queues").Result(); got != "theirs" {
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
	p := start(t, setup{}, "demo", "--redis", server.Addr())
	if got := p.wait(t, 15*time.Second); got != exitFailed {
		t.Errorf("exit status %d, want %d", got, exitFailed)
	}
	if got := p.stderr.String(); !strings.Contains(got, "name another Redis") {
		t.Errorf("standard error: %s", got)
	}
}

// Without a terminal the demo tells a line a second, and a summary at the end.
func TestDemoForPeople(t *testing.T) {
	t.Parallel()
	p := start(t, setup{}, "demo")
	if got := p.wait(t, time.Minute); got != exitDone && got != exitViolated {
		t.Errorf("exit status %d: %s", got, &p.stderr)
	}
	live := p.stderr.String()
	if strings.Count(live, "keeps nothing") != 1 || strings.Count(live, "waiting") < 5 || strings.Contains(live, "\x1b") {
		t.Errorf("standard error: %q", live)
	}
	if !strings.Contains(live, "s  sam gets: Message 1\n") || !strings.Contains(live, "s  sam gets: Message 10\n") {
		t.Errorf("the burst is not shown: %s", live)
	}
	if got := p.stdout.String(); !strings.Contains(got, "\ndelivered ") || !strings.Contains(got, " limits broken (± 50ms on the way), 0 lost") {
		t.Errorf("standard output: %s\nstandard error: %s", got, live)
	}
}

// A Redis that is down is told of before anything is promised.
func TestDemoWithoutItsRedis(t *testing.T) {
	t.Parallel()
	got := ended(t, setup{}, "demo", "--redis", "127.0.0.1:1")
	if got.status != exitFailed || !strings.HasPrefix(got.stderr, "pushpace: redis 127.0.0.1:1") || strings.Contains(got.stderr, "users") {
		t.Errorf("%+v", got)
	}
}

func TestDemoMix(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, p := range demoMix() {
		if err := p.n.Validate(); err != nil {
			t.Errorf("%s: %v", p.n.ID, err)
		}
		if seen[p.n.ID] {
			t.Errorf("%s is there twice", p.n.ID)
		}
		seen[p.n.ID] = true
	}
}

func TestAccount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		accepted, delivered, malformed int64
		taken, received                int64
		faults                         int
		lost                           int64
	}{
		"exact":                     {5, 3, 1, 5, 3, 0, 0},
		"one waits":                 {6, 3, 1, 6, 3, 1, 0},
		"one is not counted":        {5, 3, 1, 6, 3, 1, 1},
		"one was not received":      {5, 3, 1, 5, 2, 1, 1},
		"one was received too much": {5, 3, 1, 5, 4, 1, -1},
		"the malformed job is lost": {5, 3, 0, 5, 3, 1, 0},
		"another job is set aside":  {5, 3, 2, 5, 3, 1, 0},
	} {
		s := summary{counts: ledger.Counts{
			Accepted: c.accepted, Ended: map[push.State]int64{push.Delivered: c.delivered, push.Undeliverable: 1, push.Expired: 1}, Malformed: c.malformed,
		}}
		s.account(c.taken, c.received)
		if len(s.faults) != c.faults || s.lost != c.lost {
			t.Errorf("%s: %q, lost %d", name, s.faults, s.lost)
		}
	}
}

func TestDemoConfig(t *testing.T) {
	t.Parallel()
	cfg, err := demoConfig("", []string{"PUSHPACE_REDIS__ADDRESS=10.0.0.1:6379", "PUSHPACE_LIMITS__DEFAULT__MIN_GAP=9s"})
	if err != nil || cfg.Redis.Address.Mode != "embedded" || cfg.Limits.Default.MinGap != time.Second {
		t.Errorf("%v, %v", cfg, err)
	}
	cfg, err = demoConfig("10.0.0.2:6379", []string{"PUSHPACE_REDIS__ADDRESS=10.0.0.1:6379", "PUSHPACE_REDIS__DB=3", "PUSHPACE_REDIS__PASSWORD=p"})
	if err != nil || cfg.Redis.Address.String() != "10.0.0.2:6379" || cfg.Redis.Password != "p" || cfg.Redis.DB != 0 {
		t.Errorf("%v, %v", cfg, err)
	}
}

func TestLatenessOfAShare(t *testing.T) {
	t.Parallel()
	var l lateness
	if got := l.at(0.99); got != 0 {
		t.Errorf("of none %v", got)
	}
	for i := range 200 {
		l.Paced(time.Duration(200-i) * time.Millisecond)
	}
	for share, want := range map[float64]float64{0.5: 100, 0.99: 198, 1: 200, 0.001: 1} {
		if got := l.at(share); got != want {
			t.Errorf("%v: %v ms, want %v", share, got, want)
		}
	}
}
