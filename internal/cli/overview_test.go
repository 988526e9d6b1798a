//go:build unix

package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/route"
)

// Incidents come first, then the sums, then the tables.
func TestOverviewPrintsIncidentsFirst(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 27, 3, 0, 0, 0, time.UTC)
	o := &operate.Overview{
		At: at, Waiting: 9000, Workers: []control.Snapshot{{ID: "w", Pulls: true, Started: at}}, Waits: []inspect.Share{{For: inspect.InHand, Count: 1200, Sampled: true, Oldest: at.Add(-90 * time.Second)}},
		Minutes:   []control.Minute{{At: at, Sent: 1234, Deferred: 5, Ended: map[push.State]int64{push.Delivered: 1234}}},
		Providers: []operate.Provider{{App: "shop", Platform: push.FCM, Latency: route.Latency{P50: 2340 * time.Microsecond}, Trouble: route.Trouble{Since: at, Reason: "UNAVAILABLE", Next: at.Add(time.Minute)}}},
		Pauses:    []pause.Pause{{Kind: pause.Trouble, App: "shop", Platform: push.FCM, Reason: "UNAVAILABLE", Until: at.Add(time.Minute), Waiting: 3}, {Kind: pause.Operator, App: "kiosk"}},
		Letters:   operate.Letters{Count: 7, LookedAt: 5, Reasons: map[string]int{"not_json": 5}, Dropped: 3},
		Unread:    []operate.Unread{{Part: operate.PartRedis, Problem: "time-out"}},
	}
	var out strings.Builder
	must(t, printOverview(&out, o))
	rest := out.String()
	for _, want := range []string{
		"wrong: fcm of shop, in trouble: UNAVAILABLE; next look 2026-11-27T03:01:00.000Z.\n", "wrong: Not read: redis (time-out).\n", "1 worker runs, 9,000 notifications wait; 1,234 were delivered in the last 15 minutes.\n",
		"held: kiosk, paused by an operator\n", "As of 2026-11-27T03:00:00.000Z.\n", "waiting             9,000\n", "drained in          not while fcm of shop holds some back\n", "last 15 minutes     1,234 sent, 5 put off, 1,234 delivered\n",
		"WAIT FOR  HOW MANY     OLDEST     MEANS\n", "in_hand   about 1,200  1m30s ago  nothing: a worker is sending it\n", "PROVIDER     IN FLIGHT  P50    P99  CREDENTIAL ENDS  STATE\n", "fcm of shop  0          2.3ms  -    -                in trouble since",
		"dead letters  7, by the reasons of 5 that were looked at; 3 older ones were deleted\n", "5: not_json\n",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("%q is missing, or not there:\n%s", want, &out)
		}
		rest = after
	}
}

// The overview of a Cluster shows each master with its shards, and that of one server its sums.
func TestOverviewPrintsShardsOfMasters(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 27, 3, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		nodes []redisconn.Node
		want  string
	}{
		{
			[]redisconn.Node{{Address: "redis:6379", Version: "7.4.0", UsedMemory: 1 << 20, AppendOnly: true, AheadBy: time.Second}},
			"redis  redis:6379, version 7.4.0, 1.0 MiB, append-only log, its clock is 1s ahead of this machine's\n",
		},
		{
			[]redisconn.Node{
				{Address: "a:6379", Error: "time-out", Shards: []int{0, 1, 2}, Waiting: new(int64(1204)), WaitingAt: at},
				{Address: "b:6379", Version: "7.4.0", AppendOnly: true, Shards: []int{3, 4, 7}, Waiting: new(int64(12)), Replicas: new(1)},
				{Address: "c:6379", Error: "time-out", Shards: []int{5, 6}}, {Address: "d:6379", Shards: []int{}, Waiting: new(int64(0))},
			},
			"REDIS   SHARDS  WAIT THERE                         REPLICAS  VERSION  STATE\n" +
				"a:6379  0-2     1,204 at 2026-11-27T03:00:00.000Z  -         -        does not answer: time-out\n" +
				"b:6379  3-4, 7  12                                 1         7.4.0    0.0 MiB, append-only log\n" +
				"c:6379  5-6     -                                  -         -        does not answer: time-out\n" +
				"d:6379  -       0                                  -         -        -\n",
		},
	} {
		var out strings.Builder
		must(t, printOverview(&out, &operate.Overview{At: at, Redis: c.nodes}))
		if got := out.String()[strings.LastIndex(out.String(), "\n\n")+2:]; got != c.want {
			t.Errorf("got\n%swant\n%s", got, c.want)
		}
	}
}
