package worker

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

func TestNextAsk(t *testing.T) {
	t.Parallel()
	const most = 2 * time.Second
	for name, c := range map[string]struct {
		left        time.Duration
		again       bool
		wait, ahead time.Duration
	}{
		"new, far":           {1500 * time.Millisecond, false, time.Second, most},
		"new, near":          {400 * time.Millisecond, false, 350 * time.Millisecond, beforeSlot},
		"new, the first":     {100 * time.Millisecond, false, settled, beforeSlot},
		"new, due at once":   {20 * time.Millisecond, false, 18 * time.Millisecond, beforeSlot},
		"again, moved back":  {1500 * time.Millisecond, true, time.Second, most},
		"again, near":        {100 * time.Millisecond, true, 50 * time.Millisecond, most},
		"again, due at once": {20 * time.Millisecond, true, 10 * time.Millisecond, most},
	} {
		decision := throttle.Decision{Status: throttle.Deferred, Left: c.left}
		if c.again {
			decision.Slot = time.Unix(1, 0)
		}
		if wait, ahead := nextAsk(&decision, most); wait != c.wait || ahead != c.ahead {
			t.Errorf("%s: in %s, %s ahead", name, wait, ahead)
		}
	}
}
