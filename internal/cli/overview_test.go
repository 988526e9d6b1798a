//go:build unix

package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/route"
)

// A provider in trouble is not paused, and a look that is due is not told as one to come.
func TestOverviewOfTrouble(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 13, 29, 0, 0, time.UTC)
	for next, want := range map[time.Duration][2]string{
		time.Minute:  {"looked at again at 2026-11-21T13:30:00.000Z", "next look 2026-11-21T13:30:00.000Z"},
		-time.Second: {"looked at again now", "next look now"},
	} {
		at := now.Add(next)
		var out strings.Builder
		if err := printOverview(&out, &operate.Overview{
			At: now, Providers: []operate.Provider{{App: "shop", Platform: push.FCM, Trouble: route.Trouble{Since: now.Add(-time.Hour), Reason: "UNAVAILABLE", Next: at}}},
			Pauses: []pause.Pause{{Kind: pause.Trouble, App: "shop", Platform: push.FCM, Until: at}, {Kind: pause.Operator, App: "kiosk"}},
		}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{want[0], "trouble  fcm of shop, in trouble; " + want[1], "paused   kiosk, paused by"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q is missing:\n%s", want, &out)
			}
		}
	}
}

// Of a Cluster it is told what lies on which master, and of one server what it was.
func TestOverviewOfServers(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 27, 3, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		nodes []redisconn.Node
		want  string
	}{
		{[]redisconn.Node{{Address: "redis:6379"}}, "redis  redis:6379\n"},
		{
			[]redisconn.Node{{Address: "redis:6379", Version: "7.4.0", UsedMemory: 1 << 20, MaxMemory: 4 << 20, LastSave: at, Failing: "its last snapshot failed", AheadBy: time.Second}},
			"redis  redis:6379, version 7.4.0, 1.0 MiB of 4.0 MiB (25 %), last snapshot 2026-11-27T03:00:00.000Z, its last snapshot failed, its clock is 1s off this machine's\n",
		},
		{
			[]redisconn.Node{
				{Address: "a:6379", Error: "time-out", Shards: []int{0, 1, 2}, Waiting: new(int64(1204)), WaitingAt: at},
				{Address: "b:6379", Version: "7.4.0", AppendOnly: true, Shards: []int{3, 4, 7}, Waiting: new(int64(12)), Replicas: new(1)},
				{Address: "c:6379", Error: "time-out", Shards: []int{5, 6}}, {Address: "d:6379", Shards: []int{}, Waiting: new(int64(0))},
			},
			"REDIS   SHARDS  WAIT THERE                        REPLICAS  STATE\n" +
				"a:6379  0-2     1204 at 2026-11-27T03:00:00.000Z  -         does not answer: time-out\n" +
				"b:6379  3-4, 7  12                                1         version 7.4.0, 0.0 MiB, append-only log\n" +
				"c:6379  5-6     not known                         -         does not answer: time-out\n" +
				"d:6379  -       0                                 -         -\n",
		},
	} {
		var out strings.Builder
		must(t, printOverview(&out, &operate.Overview{At: at, Redis: c.nodes}))
		if _, got, _ := strings.Cut(out.String(), "\n\n"); got != c.want {
			t.Errorf("got\n%swant\n%s", got, c.want)
		}
	}
}

// What could not be read is named, and said of nothing else.
func TestOverviewSaysWhatWasNotRead(t *testing.T) {
	t.Parallel()
	o := &operate.Overview{At: time.Now(), Unread: []operate.Unread{{Part: operate.PartLetters, Problem: "time-out"}, {Part: operate.PartWaiting, Problem: "refused"}, {Part: operate.PartWorkers, Problem: "refused"}}}
	var text strings.Builder
	must(t, printOverview(&text, o))
	must(t, printOverview(&text, &operate.Overview{At: time.Now(), Waiting: 9000, DrainsIn: 150 * time.Second}))
	for _, want := range []string{"9000 notifications wait, what may leave is drained in about 3 min at the present rate.", "it is not known which workers run, it is not known how many notifications wait", "dead letters           not read: time-out\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing:\n%s", want, &text)
		}
	}
}
