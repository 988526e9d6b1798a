package demo

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

func TestDemoMixIsValid(t *testing.T) {
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

func TestAccountFindsLosses(t *testing.T) {
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
		s := summary{counts: store.Counts{
			Accepted: c.accepted, Ended: map[push.State]int64{push.Delivered: c.delivered, push.Undeliverable: 1, push.Expired: 1}, Malformed: c.malformed,
		}}
		s.account(c.taken, c.received)
		if len(s.faults) != c.faults || s.lost != c.lost {
			t.Errorf("%s: %q, lost %d", name, s.faults, s.lost)
		}
	}
}

func TestDemoConfigUsesOnlyNamedRedis(t *testing.T) {
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
