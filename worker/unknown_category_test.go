package worker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// Notifications of an unknown category are counted, and the log names the category once. With the policy
// refuse they are rejected.
func TestUnknownCategoryIsCountedAndLogged(t *testing.T) {
	for policy, want := range map[limits.UnknownCategory]struct {
		delivered int64
		counted   int
	}{
		limits.AllowUnknown: {4, 0}, limits.WarnUnknown: {4, 3}, limits.RefuseUnknown: {1, 3},
	} {
		t.Run(string(policy), func(t *testing.T) {
			policies := limits.New(throttle.Policy{}, map[string]throttle.Policy{"orders": {Rates: []throttle.Rate{{Count: 100, Period: time.Hour}}}})
			policies.SetUnknown(policy)
			r := newRig(t, oneRedis(t), policies)
			log := r.logs()
			r.start()
			for id, category := range map[string]string{"one": "odrers", "two": "odrers", "three": "ordres", "four": "orders"} {
				n := to(id)
				n.Category = category
				r.enqueue(n)
			}
			counts := r.settled(4)
			if counts.Ended[push.Delivered] != want.delivered || counts.Ended[push.Rejected] != 4-want.delivered {
				t.Errorf("counts %+v", counts)
			}
			r.seen.mu.Lock()
			counted := r.seen.unknown
			r.seen.mu.Unlock()
			if counted != want.counted {
				t.Errorf("counted %d, want %d", counted, want.counted)
			}
			if named := strings.Count(log.String(), "category=odrers"); named != min(1, want.counted) {
				t.Errorf("named %d times:\n%s", named, log.String())
			}
			if record := r.record("one"); policy == limits.RefuseUnknown && record.Outcomes[0].Reason != "unknown_category" {
				t.Errorf("%+v", record)
			}
		})
	}
}
