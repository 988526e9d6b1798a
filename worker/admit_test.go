package worker

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

func TestNextAsk(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		left  time.Duration
		again bool
		wait  time.Duration
	}{
		"new, far":           {1500 * time.Millisecond, false, time.Second},
		"new, near":          {400 * time.Millisecond, false, 350 * time.Millisecond},
		"new, the first":     {100 * time.Millisecond, false, settled},
		"new, due at once":   {20 * time.Millisecond, false, 18 * time.Millisecond},
		"again, moved back":  {1500 * time.Millisecond, true, time.Second},
		"again, near":        {100 * time.Millisecond, true, 50 * time.Millisecond},
		"again, due at once": {20 * time.Millisecond, true, 10 * time.Millisecond},
	} {
		decision := throttle.Decision{Status: throttle.Deferred, Left: c.left}
		if c.again {
			decision.Slot = time.Unix(1, 0)
		}
		if wait := nextAsk(&decision); wait != c.wait {
			t.Errorf("%s: in %s", name, wait)
		}
	}
}
