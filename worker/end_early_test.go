package worker

import (
	"testing"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

func TestEndEarlyKeepsEarlierDelivery(t *testing.T) {
	t.Parallel()
	delivered := outcome{Outcome: providers.Outcome{Kind: providers.Delivered}}
	dead := outcome{Outcome: providers.Outcome{Kind: providers.DeadToken}}
	ambiguous := outcome{Outcome: providers.Outcome{Kind: providers.Retry, Ambiguous: true}}
	for name, c := range map[string]struct {
		outcomes []outcome
		state    push.State
		used     bool
		dead     int
	}{
		"never sent":           {[]outcome{{}, {}}, push.Expired, false, 0},
		"one delivered":        {[]outcome{{}, delivered}, push.Delivered, true, 0},
		"one may be delivered": {[]outcome{ambiguous, dead}, push.Expired, true, 1},
		"one dead":             {[]outcome{{}, dead}, push.Expired, false, 1},
		"one delivered, dead":  {[]outcome{delivered, dead, {}}, push.Delivered, true, 1},
	} {
		d := &delivery{outcomes: c.outcomes}
		got := d.endEarly(push.Expired, "late")
		if got.state != c.state || d.used() != c.used || got.dead != c.dead {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
