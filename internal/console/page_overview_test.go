package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
	ways "github.com/pushpace/pushpace/worker/route"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// The chart has a column for each bucket, and the columns' parts fit into the chart.
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

// A loss of data is an incident until an operator confirms it with its button.
func TestLossIsIncidentUntilConfirmed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	must(t, r.client.HSet(t.Context(), "pushpace:losses", "at", noon.UnixMilli(), "pauses:w", 1).Err())
	contains(t, r.get(http.StatusOK, Path), "Redis has lost data: 1 pause, noticed", "Confirm the loss")
	shown := func(at time.Time) url.Values { return url.Values{"at": {at.UTC().Format(time.RFC3339Nano)}} }
	contains(t, r.get(http.StatusOK, r.post(http.StatusSeeOther, "/console/losses", shown(noon.Add(-time.Second)))), "Nothing was confirmed", "Redis has lost data: 1 pause")
	text := r.get(http.StatusOK, r.post(http.StatusSeeOther, "/console/losses", shown(noon)))
	contains(t, text, "The loss is confirmed.")
	if strings.Contains(text, "lost data") {
		t.Error("it is shown still")
	}
	r.post(http.StatusSeeOther, "/console/losses", shown(noon)) // by another page that was open
}

// ofClass returns the texts of the elements with the class.
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

// leave publishes a worker's snapshot.
func (r *rig) leave(s control.Snapshot) {
	r.t.Helper()
	must(r.t, control.PublishSnapshot(r.t.Context(), r.client, "", &s))
}

// The overview shows the snapshots of all workers. Waiting notifications do not look like
// failures.
func TestOverviewPage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.leave(control.Snapshot{
		ID: "first", Pulls: true, Version: "v1", Started: noon, LateP99: 1500 * time.Millisecond, Minutes: []control.Minute{{At: time.Now().UTC().Truncate(time.Minute), Sent: 4321, Deferred: 17}},
		Routes: []ways.Status{
			{App: "shop", Platform: push.FCM, State: ways.Closed, Trouble: ways.Trouble{Reason: "UNAVAILABLE", Error: "503", Since: noon, Failures: 9}},
			{App: "shop", Platform: push.APNs, State: ways.Closed, Pause: "TooManyProviderTokenUpdates", Until: noon.Add(time.Hour)},
		},
	})
	r.leave(control.Snapshot{ID: "second", Started: noon})
	must(t, pause.NewStore(r.client, "").Begin(t.Context(), &pause.Pause{App: "mail", By: "ada", Reason: "a campaign"}))
	n := toUser("later", "ada", "")
	n.NotBefore = time.Now().Add(time.Hour)
	r.enqueue(n)
	r.addLetter(toUser("gone", "ada", ""), "not_json", time.Now())
	text := ""
	eventually.Holds(t, "all parts are read", func() bool { // a slow machine reads some parts too late
		text = r.get(http.StatusOK, Path)
		return !strings.Contains(text, "ot read") && strings.Contains(text, `<span class="chip ">they balance</span>`)
	})
	contains(t, text, "2 workers run, 1 notification waits", "4,321 sent", "Lateness (p99): 1.5s", "not_json", "the instant that its producer has set", "ada", "a campaign")
	failures, waiting := strings.Join(ofClass(t, text, "fault"), "\n"), strings.Join(ofClass(t, text, "waits"), "\n")
	contains(t, failures, "fcm of shop, in trouble since", "gets no answer when it asks Redis")
	lacks(t, failures, "TooMany", "put off")
	contains(t, waiting, "1", "put off by a limit")
	if len(text) > 60<<10 {
		t.Errorf("%d bytes", len(text))
	}
}
