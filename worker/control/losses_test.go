package control

import (
	"testing"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

func TestLossCountsWaitingNotifications(t *testing.T) {
	t.Parallel()
	sums := func(accepted, delivered, letters int64) store.Counts {
		return store.Counts{Accepted: accepted, Ended: map[push.State]int64{push.Delivered: delivered}, Letters: letters}
	}
	for name, c := range map[string]struct {
		before, now store.Counts
		waited      int64
		fewer       bool
	}{
		"first read":           {store.Counts{}, sums(1000, 219, 0), 0, false},
		"no change":            {sums(1000, 219, 3), sums(1000, 219, 3), 0, false},
		"more":                 {sums(1000, 219, 0), sums(1200, 1000, 0), 0, false},
		"dead letters purged":  {sums(1000, 219, 3), sums(1000, 219, 0), 0, false},
		"one requeued":         {sums(1000, 219, 3), sums(1000, 218, 2), 0, false},
		"empty":                {sums(1000, 219, 0), sums(0, 0, 0), 781, true},
		"empty, then new ones": {sums(1000, 219, 0), sums(40, 40, 0), 781, true},
		"empty, none waited":   {sums(1000, 1000, 0), sums(0, 0, 0), 0, true},
		"last ones missing":    {sums(1000, 219, 0), sums(990, 219, 0), 10, true},
		"most of them sent":    {sums(1000, 998, 0), sums(900, 900, 0), 2, true},
	} {
		if waited, fewer := lost(c.before, c.now); waited != c.waited || fewer != c.fewer {
			t.Errorf("%s: %d, %t", name, waited, fewer)
		}
	}
}
