package operate

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

func TestDrainsIn(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 13, 7, 30, 0, time.UTC)
	minute := func(ago int, waiting, ended int64) control.Minute {
		return control.Minute{At: now.Truncate(time.Minute).Add(-time.Duration(ago) * time.Minute), Waiting: &waiting, Ended: map[push.State]int64{push.Delivered: ended - 1, push.Expired: 1}}
	}
	due := []inspect.Share{{For: inspect.ForWorker, Count: 300}}
	mixed := []inspect.Share{{For: inspect.ForWorker, Count: 100}, {For: inspect.ForProvider, Count: 200}, {For: inspect.ForSchedule, Count: 9000}, {For: inspect.ForLimit, Count: 9000}, {For: inspect.ForQuiet, Count: 9000}, {For: inspect.ForPause, Count: 9000}}
	quota := []inspect.Share{{For: inspect.ForQuota, Count: 12000}}
	shrinks := []control.Minute{minute(3, 500, 100), minute(2, 400, 100), minute(1, 300, 100)}
	for name, c := range map[string]struct {
		waits   []inspect.Share
		minutes []control.Minute
		want    time.Duration
	}{
		"it shrinks":                        {due, shrinks, 3 * time.Minute},
		"only what may leave counts":        {mixed, shrinks, 3 * time.Minute},
		"nothing may leave":                 {mixed[2:], shrinks, 0},
		"it grows":                          {due, []control.Minute{minute(2, 300, 100), minute(1, 400, 100)}, 0},
		"since its peak":                    {due, []control.Minute{minute(3, 0, 100), minute(2, 600, 100), minute(1, 300, 100)}, time.Minute},
		"the running minute does not count": {due, append(shrinks[:3:3], minute(0, 0, 9999)), 3 * time.Minute},
		"nobody tells of the present":       {due, []control.Minute{minute(5, 500, 100), minute(4, 300, 100)}, 0},
		"a quota bounds it":                 {quota, []control.Minute{minute(1, 12000, 6000)}, 2 * time.Minute},
		"a quota, and it shrinks":           {quota, []control.Minute{minute(2, 15000, 6000), minute(1, 12000, 6000)}, 4 * time.Minute},
		"nothing is known":                  {due, nil, 0},
	} {
		if got := drainsIn(c.waits, c.minutes, now); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// While notifications wait for a provider in trouble, the time until they leave is unknown.
func TestHoldingReturnsPauseOfProviderInTrouble(t *testing.T) {
	t.Parallel()
	idle, paused := pause.Pause{Kind: pause.Trouble, App: "shop", Platform: push.FCM}, pause.Pause{Kind: pause.Operator, Waiting: 3}
	if p := (&Overview{Pauses: []pause.Pause{paused, idle}}).Holding(); p != nil {
		t.Errorf("%+v", p)
	}
	holding := pause.Pause{Kind: pause.Trouble, App: "kiosk", Platform: push.FCM, Waiting: 2}
	if p := (&Overview{Pauses: []pause.Pause{paused, idle, holding}}).Holding(); p == nil || p.App != "kiosk" {
		t.Errorf("%+v", p)
	}
}
