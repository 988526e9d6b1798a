package console

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
	ways "github.com/pushpace/pushpace/worker/route"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// said is a sentence as one reads it.
func said(s words.Sentence) string {
	var b strings.Builder
	for _, p := range s {
		b.WriteString(p.Text)
		if !p.At.IsZero() {
			b.WriteString(p.At.Format("15:04"))
		}
	}
	return b.String()
}

// One sentence says how much waits and who sends it, and what is wrong is said once, apart
// from what is kept back on purpose.
func TestSentenceOfOverview(t *testing.T) {
	t.Parallel()
	worker := []control.Snapshot{{ID: "w", Pulls: true}}
	due := []control.Share{{For: control.ForWorker, Count: 12, Oldest: noon.Add(-800 * time.Millisecond)}, {For: control.ForLimit, Count: 3398, Sampled: true}}
	operators := pause.Pause{Kind: pause.Operator, App: "shop", Platform: push.APNs, By: "ada", At: noon.Add(4 * time.Minute)}
	trouble := pause.Pause{Kind: pause.Trouble, App: "kiosk", Platform: push.FCM, Reason: "UNAVAILABLE", At: noon, Until: noon.Add(time.Minute)}
	provider := pause.Pause{Kind: pause.Provider, App: "kiosk", Platform: push.FCM, Reason: "QUOTA_EXCEEDED", Until: noon.Add(time.Minute)}
	for name, c := range map[string]struct {
		o                     operate.Overview
		audit                 *control.Audit
		want, incidents, held string
	}{
		"nothing": {o: operate.Overview{}, want: "Nothing waits.", incidents: "No worker runs: what waits is sent when one is started."},
		"one": {
			o:    operate.Overview{Waiting: 1, Workers: worker, Minutes: []control.Minute{{Ended: map[push.State]int64{push.Delivered: 1000}}, {Ended: map[push.State]int64{push.Delivered: 234}}}},
			want: "1 waits; 1 worker runs, and delivered 1,234 in the last 15 minutes.",
		},
		"a pause": {
			o:     operate.Overview{At: noon, Waiting: 3410, Waits: due, Workers: append(worker, worker...), Pauses: []pause.Pause{operators}},
			audit: &control.Audit{},
			want:  "3,410 wait, 12 are due, and the oldest of what is due was accepted 0.8 s ago; 2 workers run, and delivered 0 in the last 15 minutes.",
			held:  "apns of shop, paused by ada since 12:04",
		},
		"the limits' Redis": {
			o:    operate.Overview{Workers: []control.Snapshot{{Pulls: true, Limits: control.LimitsAway{Since: noon}}}, LimitsRedis: []redisconn.Node{{Address: "limits:6379", Error: "EOF"}}},
			want: "Nothing waits; 1 worker runs, and delivered 0 in the last 15 minutes.", incidents: "Redis at limits:6379 does not answer: EOF. The limits' Redis does not answer the workers.",
		},
		"a master of a Cluster": {
			o: operate.Overview{Workers: worker, Redis: []redisconn.Node{
				{Address: "a:6379", Error: "EOF", Shards: []int{0, 1, 2}, Waiting: new(int64(1204)), WaitingAt: noon}, {Address: "b:6379", Error: "EOF", Shards: []int{3}},
				{Address: "c:6379", Shards: []int{4}, Waiting: new(int64(1)), Replicas: new(0)}, {Address: "d:6379", Error: "EOF", Shards: []int{}, Waiting: new(int64(0))},
			}},
			want: "Nothing waits; 1 worker runs, and delivered 0 in the last 15 minutes.",
			incidents: "Redis at a:6379 does not answer, where shards 0-2 lie, and 1,204 waited at 12:00: EOF. Redis at b:6379 does not answer, where shard 3 lies: EOF. " +
				"Redis at d:6379 does not answer: EOF.",
		},
		"of some apps": {
			o:    operate.Overview{At: noon, Apps: []string{"shop"}, Sampled: true, Waiting: 3410, Waits: due[1:], Workers: worker, Pauses: []pause.Pause{trouble, provider, operators}},
			want: "About 3,410 wait; 1 worker runs.", incidents: "fcm of kiosk, in trouble since 12:00: UNAVAILABLE; next look 12:01.",
			held: "fcm of kiosk, paused: QUOTA_EXCEEDED; until 12:01 apns of shop, paused by ada since 12:04",
		},
		"a provider without a pause": {
			o:         operate.Overview{At: noon, Workers: worker, Providers: []operate.Provider{{App: "shop", Platform: push.FCM, Workers: 2, Troubled: 1, Trouble: ways.Trouble{Reason: "UNAVAILABLE", Since: noon}}}},
			want:      "Nothing waits; 1 worker runs, and delivered 0 in the last 15 minutes.",
			incidents: "fcm of shop: in trouble: UNAVAILABLE, since 12:00 (for 1 of 2 workers).",
		},
		"the accounts, and what was not read": {
			o:     operate.Overview{Workers: []control.Snapshot{{ID: "w"}}, Unread: []operate.Unread{{Part: operate.PartLetters, Problem: "time-out"}}},
			audit: &control.Audit{Difference: 1000},
			want:  "Nothing waits; 1 worker runs, and delivered 0 in the last 15 minutes.",
			incidents: "1 worker gets no answer when asking Redis for jobs. The accounts differ: 1,000 wait, and are on no queue. " +
				"Not read: dead letters (time-out).",
		},
	} {
		view := viewOfOverview(&c.o, c.audit)
		var incidents, held []string
		for _, s := range view.Incidents {
			incidents = append(incidents, said(s))
		}
		for _, s := range view.Held {
			held = append(held, said(s))
		}
		if got := said(view.Sentence); got != c.want || strings.Join(incidents, " ") != c.incidents || strings.Join(held, " ") != c.held {
			t.Errorf("%s: %s\n%q\n%q", name, got, incidents, held)
		}
	}
}

// The numbers that are looked at first are those of the minute that is over, and say where
// they were not read.
func TestTiles(t *testing.T) {
	t.Parallel()
	o := &operate.Overview{
		At: noon.Add(30 * time.Second), Waiting: 3410, OldestDue: noon, DrainsIn: 150 * time.Second, Letters: operate.Letters{Count: 7},
		Minutes: []control.Minute{{At: noon.Add(-2 * time.Minute), Ended: map[push.State]int64{push.Delivered: 5, push.Rejected: 2}}, {At: noon.Add(-time.Minute), Ended: map[push.State]int64{push.Delivered: 1234, push.Exhausted: 1}}, {At: noon, Ended: map[push.State]int64{push.Delivered: 9}}},
		Unread:  []operate.Unread{{Part: operate.PartLetters, Problem: "time-out"}},
	}
	var got []string
	for _, tile := range tilesOf(o) {
		got = append(got, tile.Name+" "+tile.Value)
	}
	if want := "Waiting 3,410|Dead letters not read|Delivered a minute 1,234|Failed, 15 minutes 3|Oldest due 30 s|Drained in 2 min"; strings.Join(got, "|") != want {
		t.Errorf("%q, want %s", got, want)
	}
	o.Apps, o.Sampled = []string{"shop"}, true
	if tiles := tilesOf(o); len(tiles) != 2 || tiles[0].Value != "about 3,410" {
		t.Errorf("%+v", tiles)
	}
	o.Unread = append(o.Unread, operate.Unread{Part: operate.PartWaits, Problem: "time-out"}) // which Waiting is the sum of
	if tiles := tilesOf(o); tiles[0].Value != "not read" || tiles[0].Class != "fault" {
		t.Errorf("%+v", tiles)
	}
	o.Apps = nil
	if tiles := tilesOf(o); tiles[0].Value != "about 3,410" || tiles[5].Value != "not read" {
		t.Errorf("%+v", tiles)
	}
}

// A column stands for each bucket, and what is drawn of it adds up within the chart.
func TestThroughputChart(t *testing.T) {
	t.Parallel()
	for within, n := range map[operate.Range]int{operate.QuarterHour: 15, operate.Hour: 60, operate.Day: 96} {
		all := &operate.Throughput{At: noon}
		for i := range n {
			all.Buckets = append(all.Buckets, operate.Bucket{At: noon.Add(time.Duration(i-n) * time.Minute), Sent: int64(i * 10), Deferred: int64(i % 3), Failed: 1})
		}
		c := drawThroughput(all, within)
		if len(c.Columns) != n || len(c.Ranges) != 3 || len(c.Scale) != 3 || c.Failed != int64(n) {
			t.Fatalf("%s: %+v", within, c)
		}
		for i, col := range c.Columns {
			top := col.Failed.Y
			if end := col.X + col.Width; end > 720 || top < chartTop-2 || col.Sent.Y+col.Sent.Height != chartBottom || col.Deferred.Y+col.Deferred.Height != col.Sent.Y || i > 0 && col.X <= c.Columns[i-1].X {
				t.Errorf("%s, column %d: %+v", within, i, col)
			}
		}
	}
	for n, want := range map[int64]int64{0: 1, 1: 1, 3: 5, 5: 5, 6: 10, 101: 200, 4321: 5000} {
		if got := roundUp(n); got != want {
			t.Errorf("%d: %d", n, got)
		}
	}
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	for want, a := range map[string]*control.Audit{
		"": nil, "exact": {Difference: 2, InFlight: 2}, "3 wait, and are on no queue": {Difference: 3, InFlight: 2},
		"1 is on a queue, and does not wait": {Difference: -1}, "cannot tell: shards 2, 5 do not answer": {Difference: 3, Unread: []int{2, 5}},
	} {
		if got := accountsOf(a); got.State != want || (got.Class == "fault") != (a != nil && a.Balance() == control.Unbalanced) {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}

// ofClass returns the texts of the elements of that class.
func ofClass(t *testing.T, page, class string) (texts []string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	must(t, err)
	for n := range root.Descendants() {
		for _, a := range n.Attr {
			if a.Key != "class" || !strings.Contains(" "+a.Val+" ", " "+class+" ") {
				continue
			}
			text := ""
			for d := range n.Descendants() {
				if d.Type == html.TextNode {
					text += d.Data
				}
			}
			texts = append(texts, text)
		}
	}
	return texts
}

// leave leaves the snapshot of a worker.
func (r *rig) leave(s control.Snapshot) {
	r.t.Helper()
	must(r.t, control.LeaveSnapshot(r.t.Context(), r.client, "", &s))
}

// The overview shows the snapshots of all workers. Waiting notifications do not look like
// failures.
func TestOverviewPage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.leave(control.Snapshot{
		ID: "first", Pulls: true, Version: "v1", Started: noon, LateP99: 1500 * time.Millisecond, Minutes: []control.Minute{{At: time.Now().UTC().Truncate(time.Minute), Sent: 4321, Deferred: 17}},
		Routes: []ways.Status{
			{App: "shop", Platform: push.FCM, Breaker: ways.BreakerOpen, Trouble: ways.Trouble{Reason: "UNAVAILABLE", Error: "503", Since: noon, Failures: 9}},
			{App: "shop", Platform: push.APNs, Breaker: ways.BreakerOpen, Pause: "TooManyProviderTokenUpdates", Until: noon.Add(time.Hour)},
		},
	})
	r.leave(control.Snapshot{ID: "second", Started: noon})
	must(t, pause.NewStore(r.client, "").Begin(t.Context(), &pause.Pause{App: "mail", By: "ada", Reason: "a campaign"}))
	n := toUser("later", "ada", "")
	n.NotBefore = time.Now().Add(time.Hour)
	r.enqueue(n)
	r.bury(toUser("gone", "ada", ""), "not_json", time.Now())
	text := ""
	eventually.Holds(t, "all parts are read", func() bool { // a slow machine reads some too late
		text = r.get(http.StatusOK, Path)
		return !strings.Contains(text, "ot read") && strings.Contains(text, `<span class="chip ">exact</span>`)
	})
	contains(t, text, "1 waits; 2 workers run", "4,321 sent", "1.5 s after the slot", "not_json", "the instant that its producer has set", "ada", "a campaign")
	failures, waiting := strings.Join(ofClass(t, text, "fault"), "\n"), strings.Join(ofClass(t, text, "waits"), "\n")
	contains(t, failures, "fcm of shop, in trouble since", "gets no answer when it asks Redis")
	lacks(t, failures, "TooMany", "put off")
	contains(t, waiting, "1", "put off by a limit")
	if len(text) > 60<<10 {
		t.Errorf("%d bytes", len(text))
	}
}

func TestRowOfRedis(t *testing.T) {
	t.Parallel()
	for want, n := range map[string]redisconn.Node{
		"3 MiB": {UsedMemory: 3 << 20}, "3 MiB of 1,024 MiB": {UsedMemory: 3 << 20, MaxMemory: 1 << 30},
		"does not answer: EOF": {Error: "EOF"}, "its last snapshot failed": {Failing: "its last snapshot failed"},
	} {
		if got := rowOfRedis("Redis", n); got.State != want || (got.Class == "fault") != (n.Error+n.Failing != "") {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}
