//go:build unix

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
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
	for key, want := range map[string]float64{"malformed": 1, "expired": 1, "undeliverable": 2} {
		if got := number(key); got != want {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
	if number("deferred") < 5 || number("dead_tokens") < 3 {
		t.Errorf("got %s", &p.stdout)
	}
	if got := number("checks_per_delivery"); got < 1 || got > 3 {
		t.Errorf("checks_per_delivery: %v", got)
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
	// what it does not show there it does not announce
	if got := p.stdout.String(); !strings.Contains(got, "\nviolations ") || !strings.Contains(got, "(± 50ms on the way)") || strings.Contains(live, "arrive") {
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
	good := summary{Accepted: 5, Delivered: 3, Undeliverable: 1, Expired: 1, Malformed: 1}
	for name, c := range map[string]struct {
		change          func(*summary)
		taken, received int64
		faults          int
	}{
		"exact":                      {func(*summary) {}, 5, 3, 0},
		"one is lost":                {func(s *summary) { s.Expired = 0 }, 5, 3, 1},
		"one waits":                  {func(s *summary) { s.Expired, s.Waiting = 0, 1 }, 5, 3, 1},
		"one is not counted":         {func(*summary) {}, 6, 3, 1},
		"one was not received":       {func(*summary) {}, 5, 2, 1},
		"the malformed job is lost":  {func(s *summary) { s.Malformed = 0 }, 5, 3, 1},
		"another job is set aside":   {func(s *summary) { s.Malformed = 2 }, 5, 3, 1},
		"one was settled twice over": {func(s *summary) { s.Rejected = 1 }, 5, 3, 1},
	} {
		s := good
		c.change(&s)
		s.account(c.taken, c.received)
		if len(s.faults) != c.faults {
			t.Errorf("%s: %q", name, s.faults)
		}
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	var values []time.Duration
	for i := range 200 {
		values = append(values, time.Duration(i+1))
	}
	for _, c := range []struct {
		sorted []time.Duration
		p      float64
		want   time.Duration
	}{{nil, 0.5, 0}, {values[:1], 0.99, 1}, {values, 0.5, 100}, {values, 0.99, 198}, {values, 1, 200}} {
		if got := percentile(c.sorted, c.p); got != c.want {
			t.Errorf("%v of %d: %d, want %d", c.p, len(c.sorted), got, c.want)
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
