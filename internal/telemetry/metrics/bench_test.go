package metrics

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
)

// notification counts a delivery, and deferral counts a deferral.
func notification(m *Metrics) {
	m.Handled(time.Millisecond)
	m.Checked(time.Millisecond)
	m.Attempted("shop", push.APNs, providers.Outcome{Kind: providers.Delivered, Reason: providers.OK}, time.Millisecond)
	m.Ended(push.Delivered)
}

func deferral(m *Metrics) {
	m.Checked(time.Millisecond)
	m.Deferred("shop", "marketing", throttle.Decision{Scope: "marketing", Rule: "1/24h"})
	m.Paced(time.Millisecond)
}

// Counting a notification allocates nothing.
func TestCountingAllocatesNothing(t *testing.T) {
	m := shop()
	for name, f := range map[string]func(*Metrics){"a delivery": notification, "a deferral": deferral} {
		if n := testing.AllocsPerRun(100, func() { f(m) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func shop() *Metrics {
	m := New(Sources{Senders: map[string]map[push.Platform]providers.Sender{"shop": {push.APNs: ending{}, push.FCM: ending{}}}})
	m.SetCategories([]string{"marketing"})
	return m
}
