package console

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/pushpace/pushpace/internal/lately"
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

// One sentence says how everything is.
func TestSentenceOfOverview(t *testing.T) {
	t.Parallel()
	worker := []control.Snapshot{{ID: "w"}}
	due := []control.Share{{For: control.ForWorker, Count: 12, Oldest: noon.Add(-800 * time.Millisecond)}, {For: control.ForLimit, Count: 3398, Sampled: true}}
	operators := pause.Pause{Kind: pause.Operator, App: "shop", Platform: push.APNs, By: "ada", At: noon.Add(4 * time.Minute)}
	trouble := pause.Pause{Kind: pause.Trouble, App: "kiosk", Platform: push.FCM, Reason: "UNAVAILABLE", At: noon, Until: noon.Add(time.Minute)}
	provider := pause.Pause{Kind: pause.Provider, App: "kiosk", Platform: push.FCM, Reason: "QUOTA_EXCEEDED", Until: noon.Add(time.Minute)}
	for name, c := range map[string]struct {
		o     operate.Overview
		audit *control.Audit
		want  string
	}{
		"nothing": {operate.Overview{}, nil, "Nothing waits; no worker runs, and nothing is sent."},
		"one":     {operate.Overview{Waiting: 1, Workers: worker, Minutes: []control.Minute{{Ended: map[push.State]int64{push.Delivered: 1000}}, {Ended: map[push.State]int64{push.Delivered: 234}}}}, nil, "1 waits; 1 worker runs, and delivered 1,234 in the last 15 minutes."},
		"a pause": {
			operate.Overview{At: noon, Waiting: 3410, Waits: due, Workers: append(worker, worker...), Pauses: []pause.Pause{operators}}, &control.Audit{},
			"3,410 wait, 12 are due, and the oldest of what is due was accepted 0.8 s ago; 2 workers run, and delivered 0 in the last 15 minutes; apns of shop, paused by ada since 12:04.",
		},
		"the limits' Redis, without a worker": {
			operate.Overview{LimitsRedis: []redisconn.Node{{Error: "EOF"}}}, nil,
			"Nothing waits; no worker runs, and nothing is sent; the limits' Redis does not answer.",
		},
		"the limits' Redis, as workers see it": {
			operate.Overview{Workers: []control.Snapshot{{Limits: control.LimitsAway{Since: noon}}}, LimitsRedis: []redisconn.Node{{}}}, nil,
			"Nothing waits; 1 worker runs, and delivered 0 in the last 15 minutes; the limits' Redis does not answer.",
		},
		"of some apps": {
			operate.Overview{At: noon, Apps: []string{"shop"}, Sampled: true, Waiting: 3410, Waits: due[1:], Workers: worker, Pauses: []pause.Pause{trouble, provider, operators, operators}}, nil,
			"About 3,410 wait; 1 worker runs; fcm of kiosk, in trouble since 12:00: UNAVAILABLE; next look 12:01; " +
				"fcm of kiosk, paused: QUOTA_EXCEEDED; until 12:01; 2 more are held back.",
		},
		"the accounts": {
			operate.Overview{Workers: worker}, &control.Audit{Difference: 1000},
			"Nothing waits; 1 worker runs, and delivered 0 in the last 15 minutes; the accounts differ: 1,000 wait, and are on no queue.",
		},
	} {
		if got := said(sentenceOf(&c.o, c.audit)); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	for want, a := range map[string]*control.Audit{
		"": nil, "exact": {Difference: 2, InFlight: 2}, "3 wait, and are on no queue": {Difference: 3, InFlight: 2},
		"1 is on a queue, and does not wait": {Difference: -1},
	} {
		if got := accountsOf(a); got.State != want || (got.Class == "fault") != (a != nil && want != "exact") {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}

// A bar stands for each minute in which there was something, the one under way last.
func TestRates(t *testing.T) {
	t.Parallel()
	now := noon.Add(30 * time.Second)
	rates, minutes := ratesOf([]control.Minute{
		{At: noon.Add(-time.Hour), Sent: 99},
		{At: noon.Add(-time.Minute), Sent: 10, Deferred: 7, Ended: map[push.State]int64{push.Delivered: 8, push.Rejected: 1, push.Malformed: 1}},
		{At: noon, Sent: 1000, Ended: map[push.State]int64{push.Cancelled: 1}},
	}, now)
	if len(minutes) != lately.Kept || !minutes[lately.Kept-1].At.Equal(noon) || len(rates) != len(outcomes) {
		t.Fatalf("%+v", minutes)
	}
	const last, before = (lately.Kept - 1) * (rateBarWidth + rateBarGap), (lately.Kept - 2) * (rateBarWidth + rateBarGap)
	for i, want := range []string{
		fmt.Sprint("Sent 1010 1000 ", []rateBar{{before, 31, rateBarWidth, 1}, {last, 0, rateBarWidth, 32}}),
		fmt.Sprint("Put off by a limit 7 7 ", []rateBar{{before, 0, rateBarWidth, 32}}),
		fmt.Sprint("Delivered 8 8 ", []rateBar{{before, 0, rateBarWidth, 32}}),
		"Undeliverable 0 0 []",
		fmt.Sprint("Failed 2 2 ", []rateBar{{before, 0, rateBarWidth, 32}}),
		fmt.Sprint("Ended unsent 1 1 ", []rateBar{{last, 0, rateBarWidth, 32}}),
	} {
		if r := rates[i]; fmt.Sprint(r.Name, " ", r.Count, " ", r.Most, " ", r.Bars) != want {
			t.Errorf("%+v, want %s", r, want)
		}
	}
	if ratesWidth != 180 || ratesHeight != 32 {
		t.Error("the template has other measures")
	}
}

// ofClass returns the texts of the elements of that class.
func ofClass(t *testing.T, page, class string) (texts []string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
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
	if err := control.LeaveSnapshot(r.t.Context(), r.client, "", &s); err != nil {
		r.t.Fatal(err)
	}
}

// A process that runs no worker shows what the workers left, and waits and pauses are
// never in the colours of failure.
func TestOverviewPage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if text := r.get(http.StatusOK, Path); !strings.Contains(text, "Nothing waits; no worker runs") || !strings.Contains(text, `<span class="chip ">exact</span>`) {
		t.Error(text)
	}
	r = newRig(t)
	began := time.Now().UTC().Truncate(time.Minute)
	r.leave(control.Snapshot{
		ID: "first", Pulls: true, Version: "v1", Started: noon, LateP99: 1500 * time.Millisecond, Minutes: []control.Minute{{At: began, Sent: 4321, Deferred: 17}},
		Routes: []ways.Status{
			{App: "shop", Platform: push.FCM, Breaker: ways.BreakerOpen, Trouble: ways.Trouble{Reason: "UNAVAILABLE", Error: "503", Since: noon, Failures: 9}},
			{App: "shop", Platform: push.APNs, Breaker: ways.BreakerOpen, Pause: "TooManyProviderTokenUpdates", Until: noon.Add(time.Hour)},
			{App: "kiosk", Platform: push.FCM, Breaker: ways.BreakerClosed},
		},
	})
	r.leave(control.Snapshot{ID: "second", Started: noon})
	store := pause.NewStore(r.client, "")
	if err := store.Begin(t.Context(), pause.Pause{App: "mail", By: "ada", Reason: "a campaign"}); err != nil {
		t.Fatal(err)
	}
	n := &push.Notification{ID: "later", App: "shop", User: "ada", Title: "t", NotBefore: time.Now().Add(time.Hour), Targets: []push.Target{{Platform: push.FCM, Token: "t"}}}
	if _, err := r.producer.Enqueue(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	letter := &push.Letter{ID: "gone", State: push.Malformed, Reason: "not_json", At: time.Now(), Queue: push.Default.Queue()}
	if err := r.setting.Work.Records.SetAside(t.Context(), letter); err != nil {
		t.Fatal(err)
	}
	text := r.get(http.StatusOK, Path)
	for _, want := range []string{"1 waits; 2 workers run", "4,321 in 15 minutes", "at most 1.5 s after their slot", "not_json", "the instant that its producer has set", "ada", "a campaign", "gets no answer when it asks Redis"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
	failures := strings.Join(ofClass(t, text, "fault"), "\n")
	for _, want := range []string{"in trouble: UNAVAILABLE", "gets no answer when it asks Redis"} {
		if !strings.Contains(failures, want) {
			t.Errorf("%q is no failure:\n%s", want, failures)
		}
	}
	waiting := strings.Join(ofClass(t, text, "waits"), "\n")
	for _, want := range []string{"1", "paused for TooManyProviderTokenUpdates", "Put off by a limit"} {
		if !strings.Contains(waiting, want) || strings.Contains(failures, "TooMany") || strings.Contains(failures, "Put off") {
			t.Errorf("%q is none that waits:\n%s\nfailures:\n%s", want, waiting, failures)
		}
	}
	if size := len(text); size > 60<<10 {
		t.Errorf("%d bytes", size)
	}
}

// A bearer of some apps sees what is theirs.
func TestOverviewOfSomeApps(t *testing.T) {
	t.Parallel()
	o := &operate.Overview{
		At: noon, Apps: []string{"shop"}, Workers: []control.Snapshot{{ID: "w", Pulls: true}}, Minutes: []control.Minute{},
		Waits: []control.Share{{For: control.ForLimit, Count: 3}}, Waiting: 3,
	}
	view := viewOfOverview(o, nil)
	if view.Rates != nil || view.Accounts.State != "" || len(view.Waits) != 1 || len(view.Workers) != 1 {
		t.Errorf("%+v", view)
	}
}

// However many workers there are, a page shows those in trouble, and says how many more.
func TestManyWorkers(t *testing.T) {
	t.Parallel()
	o := &operate.Overview{At: noon}
	for i := range 1000 {
		o.Workers = append(o.Workers, control.Snapshot{ID: fmt.Sprint("w", i), Pulls: i != 999})
	}
	view := viewOfOverview(o, nil)
	if len(view.Workers) != mostWorkers || view.More != 1000-mostWorkers || view.Workers[0].ID != "w999" || view.Workers[0].Class != "fault" {
		t.Errorf("%d, and %d more; the first is %+v", len(view.Workers), view.More, view.Workers[0])
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

// Ten open pages cost Redis what one does.
func TestTenTabsCostWhatOneDoes(t *testing.T) {
	t.Parallel()
	asked := new(counter)
	r := newRig(t, func(o *setting) { o.Sessions.client.AddHook(asked); o.Work.Fresh = time.Hour }) // as if the second were not over
	r.leave(control.Snapshot{ID: "first", Pulls: true})
	r.get(http.StatusOK, Path)
	r.get(http.StatusOK, "/console/providers")
	before := asked.commands.Load()
	if before == 0 {
		t.Fatal("nothing was asked")
	}
	var tabs sync.WaitGroup
	for range 10 {
		tabs.Go(func() {
			browser := *r
			browser.get(http.StatusOK, Path)
			browser.get(http.StatusOK, "/console/providers")
		})
	}
	tabs.Wait()
	if n := asked.commands.Load() - before; n != 0 {
		t.Errorf("%d commands more", n)
	}
}
