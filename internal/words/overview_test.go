package words

import (
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/route"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// said joins sentences, with instants as times of day.
func said(all ...Sentence) string {
	texts := make([]string, len(all))
	for i, s := range all {
		for _, p := range s {
			texts[i] += p.Text
			if !p.At.IsZero() {
				texts[i] += p.At.Format("15:04")
			}
		}
	}
	return strings.Join(texts, " ")
}

// The answer names the workers and the number that waits. Each incident is named once, apart from
// the pauses; without incidents the answer says so.
func TestOverview(t *testing.T) {
	t.Parallel()
	worker := []control.Snapshot{{ID: "w", Pulls: true}}
	due := []inspect.Share{{For: inspect.ForWorker, Count: 12, Oldest: noon.Add(-800 * time.Millisecond)}, {For: inspect.ForLimit, Count: 3398, Sampled: true}}
	operators := pause.Pause{Kind: pause.Operator, App: "shop", Platform: push.APNs, By: "ada", At: noon.Add(4 * time.Minute)}
	trouble := pause.Pause{Kind: pause.Trouble, App: "kiosk", Platform: push.FCM, Reason: "UNAVAILABLE", At: noon, Until: noon.Add(time.Minute)}
	repaired := pause.Pause{Kind: pause.Trouble, App: "shop", Platform: push.APNs, Reason: "UNAVAILABLE", At: noon.Add(-time.Minute), Until: noon}
	provider := pause.Pause{Kind: pause.Provider, App: "kiosk", Platform: push.FCM, Reason: "QUOTA_EXCEEDED", Until: noon.Add(time.Minute)}
	const well, idle = "Nothing is known to be wrong. ", "1 worker runs, nothing waits; 0 were delivered in the last 15 minutes."
	for name, c := range map[string]struct {
		o                     operate.Overview
		audit                 *inspect.Audit
		want, incidents, held string
		tone                  Tone
	}{
		"no worker": {o: operate.Overview{}, want: "Nothing waits.", incidents: "No worker runs: what waits is sent when one is started.", tone: Wrong},
		"all is well": {
			o:    operate.Overview{Waiting: 1, Workers: worker, Minutes: []control.Minute{{Ended: map[push.State]int64{push.Delivered: 1000}}, {Ended: map[push.State]int64{push.Delivered: 234}}}},
			want: well + "1 worker runs, 1 notification waits; 1,234 were delivered in the last 15 minutes.",
		},
		"a pause": {
			o:     operate.Overview{At: noon, Waiting: 3410, Waits: due, Workers: append(worker, worker...), Pauses: []pause.Pause{operators}},
			audit: &inspect.Audit{},
			want:  well + "2 workers run, 3,410 notifications wait, 12 are due, the oldest accepted 800ms ago; 0 were delivered in the last 15 minutes.",
			held:  "apns of shop, paused by ada since 12:04", tone: Warns,
		},
		"trouble that may be over": {
			o:    operate.Overview{At: noon, Workers: worker, Pauses: []pause.Pause{repaired}, Providers: []operate.Provider{{App: "shop", Platform: push.APNs, Trouble: route.Trouble{Reason: "UNAVAILABLE", Since: noon.Add(-time.Minute), Next: noon}}}},
			want: well + idle, held: "apns of shop, in trouble since 11:59: UNAVAILABLE; nothing waits for it, and the next push shows whether it works", tone: Warns,
		},
		"a loss of data": {
			o:    operate.Overview{At: noon, Workers: worker, Lost: &control.Loss{At: noon, Notifications: 1063, Pauses: 1, Overrides: 2}},
			want: idle, tone: Wrong,
			incidents: "Redis has lost data: about 1,063 notifications that waited, 1 pause, 2 overrides and mutes, noticed 12:00. Send, pause and set again what is still needed, and confirm the loss.",
		},
		"the limits' Redis": {
			o:    operate.Overview{Workers: []control.Snapshot{{Pulls: true, Limits: control.LimitsOutage{Since: noon}}}, LimitsRedis: []redisconn.Node{{Address: "limits:6379", Error: "EOF"}}},
			want: idle, incidents: "Redis at limits:6379 does not answer: EOF. The limits' Redis does not answer the workers.", tone: Wrong,
		},
		"a master of a Cluster": {
			o: operate.Overview{Workers: worker, Redis: []redisconn.Node{
				{Address: "a:6379", Error: "EOF", Shards: []int{0, 1, 2}, Waiting: new(int64(1204)), WaitingAt: noon}, {Address: "b:6379", Error: "EOF", Shards: []int{3}},
				{Address: "c:6379", Shards: []int{4}, Waiting: new(int64(1)), Replicas: new(0)}, {Address: "d:6379", Error: "EOF", Shards: []int{}, Waiting: new(int64(0))},
			}},
			want: idle, tone: Wrong,
			incidents: "Redis at a:6379 does not answer, where shards 0-2 lie, and 1,204 waited at 12:00: EOF. Redis at b:6379 does not answer, where shard 3 lies: EOF. " +
				"Redis at d:6379 does not answer: EOF.",
		},
		"of some apps": {
			o:    operate.Overview{At: noon, Apps: []string{"shop"}, Sampled: true, Waiting: 3410, Waits: due[1:], Workers: worker, Pauses: []pause.Pause{trouble, provider, operators}},
			want: "1 worker runs, about 3,410 notifications wait of shop.", incidents: "fcm of kiosk, in trouble since 12:00: UNAVAILABLE; next look 12:01.",
			held: "fcm of kiosk, paused: QUOTA_EXCEEDED; until 12:01 apns of shop, paused by ada since 12:04", tone: Wrong,
		},
		"a provider without a pause": {
			o:    operate.Overview{At: noon, Workers: worker, Providers: []operate.Provider{{App: "shop", Platform: push.FCM, Workers: 2, Troubled: 1, Trouble: route.Trouble{Reason: "UNAVAILABLE", Since: noon}}}},
			want: idle, incidents: "fcm of shop, in trouble since 12:00: UNAVAILABLE (for 1 of 2 workers).", tone: Wrong,
		},
		"the accounts, and what was not read": {
			o:     operate.Overview{Workers: []control.Snapshot{{ID: "w"}}, Unread: []operate.Unread{{Part: operate.PartLetters, Problem: "time-out"}}},
			audit: &inspect.Audit{Difference: 1000}, want: idle, tone: Wrong,
			incidents: "1 worker gets no answer when asking Redis for jobs. 1,000 notifications count as waiting, and are on no queue. Not read: dead letters (time-out).",
		},
		"nobody knows": {
			o:    operate.Overview{Unread: []operate.Unread{{Part: operate.PartWaiting, Problem: "refused"}, {Part: operate.PartWorkers, Problem: "refused"}}},
			want: "It is not known which workers run, it is not known how many notifications wait.", incidents: "Not read: number of waiting notifications (refused). Not read: workers and providers (refused).", tone: Wrong,
		},
	} {
		v := OfOverview(&c.o, c.audit)
		if said(v.Answer) != c.want || said(v.Incidents...) != c.incidents || said(v.Held...) != c.held || v.Tone != c.tone {
			t.Errorf("%s: %d, %s\n%s\n%s", name, v.Tone, said(v.Answer), said(v.Incidents...), said(v.Held...))
		}
	}
}

// The deliveries are counted over the last minute. If the time to drain is unknown, the text has
// the reason. A number that could not be read is shown as "not read".
func TestFigures(t *testing.T) {
	t.Parallel()
	delivered := func(at time.Time, n int64) control.Minute {
		return control.Minute{At: at, Ended: map[push.State]int64{push.Delivered: n, push.Exhausted: 1}}
	}
	o := &operate.Overview{
		At: noon.Add(15 * time.Second), Waiting: 3410, OldestDue: noon.Add(-15 * time.Second), DrainsIn: 150 * time.Second, Letters: operate.Letters{Count: 7},
		Minutes: []control.Minute{delivered(noon.Add(-2*time.Minute), 5), delivered(noon.Add(-time.Minute), 1200), delivered(noon, 900)},
		Unread:  []operate.Unread{{Part: operate.PartLetters, Problem: "time-out"}},
	}
	got := func() string {
		var all []string
		for _, f := range OfOverview(o, nil).Figures {
			all = append(all, strings.Join(strings.Fields(f.Name+" "+f.Value+" "+f.Hint), " "))
		}
		return strings.Join(all, "|")
	}
	if want := "Waiting 3,410|Dead letters not read|Delivered a minute 1,800|Failed, 15 minutes 3|Oldest due 30s|Drained in 2m30s"; got() != want {
		t.Errorf("%s, want %s", got(), want)
	}
	o.DrainsIn, o.Pauses = 0, []pause.Pause{{Kind: pause.Trouble, App: "kiosk", Platform: push.FCM, Waiting: 3}}
	if want := "Drained in not while fcm of kiosk holds some back"; !strings.HasSuffix(got(), want) {
		t.Errorf("%s, want %s", got(), want)
	}
	o.Apps, o.Sampled = []string{"shop"}, true
	if want := "Waiting about 3,410|Dead letters not read"; got() != want {
		t.Errorf("%s, want %s", got(), want)
	}
	o.Unread = append(o.Unread, operate.Unread{Part: operate.PartWaits, Problem: "time-out"}) // Waiting is the sum of the waits
	if figures := OfOverview(o, nil).Figures; figures[0].Value != "not read" || figures[0].Tone != Wrong {
		t.Errorf("%+v", figures)
	}
	o.Apps = nil
	if !strings.HasPrefix(got(), "Waiting about 3,410") || !strings.Contains(got(), "Drained in not read") {
		t.Error(got())
	}
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	for want, a := range map[string]*inspect.Audit{
		"": nil, "they balance": {Difference: 2, InFlight: 2}, "3 notifications count as waiting, and are on no queue": {Difference: 3, InFlight: 2},
		"1 job is on a queue, and does not count as waiting": {Difference: -1}, "cannot tell: shards 2, 5 do not answer": {Difference: 3, Unread: []int{2, 5}},
	} {
		if got := OfAudit(a); got.State != want || (got.Tone == Wrong) != (a != nil && a.Balance() == inspect.Unbalanced) {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}

// The state of a provider, and whether it looks like a failure. A pause of a category is not a
// pause of the provider.
func TestProvider(t *testing.T) {
	t.Parallel()
	operators := []pause.Pause{
		{Kind: pause.Operator, App: "shop", By: "ada"}, {Kind: pause.Operator, Platform: push.FCM, Category: "news"},
		{Kind: pause.Operator, App: "kiosk"}, {Kind: pause.Provider, App: "shop", Platform: push.FCM},
	}
	for name, c := range map[string]struct {
		p      operate.Provider
		pauses []pause.Pause
		state  string
		tone   Tone
		why    string
		held   int
	}{
		"works":           {operate.Provider{Workers: 2}, nil, "works", Well, "", 0},
		"paused":          {operate.Provider{}, operators, "paused by an operator", Warns, "", 1},
		"a category":      {operate.Provider{}, operators[1:2], "works", Well, "", 0},
		"quota":           {operate.Provider{Pause: "QUOTA_EXCEEDED", Until: noon, Troubled: 1, Workers: 2}, nil, "paused", Warns, ": QUOTA_EXCEEDED; until 12:00 (for 1 of 2 workers)", 0},
		"misconfigured":   {operate.Provider{Pause: "BadTopic"}, nil, "paused", Wrong, ": BadTopic", 0},
		"trouble":         {operate.Provider{Trouble: route.Trouble{Reason: "UNAVAILABLE", Error: "503", Since: noon, Next: noon.Add(time.Minute)}}, operators, "in trouble", Wrong, " since 12:00: UNAVAILABLE: 503; next look 12:01", 1},
		"a look is due":   {operate.Provider{Trouble: route.Trouble{Reason: "UNAVAILABLE", Since: noon, Next: noon}}, []pause.Pause{{Kind: pause.Trouble, App: "shop", Platform: push.FCM, Waiting: 3}}, "in trouble", Wrong, " since 12:00: UNAVAILABLE; next look now", 0},
		"tried again":     {operate.Provider{Troubled: 1, Workers: 1}, nil, "being tried again", Warns, "", 0},
		"without a share": {operate.Provider{Workers: 3, Shareless: 1}, nil, "works", Well, "; 1 of 3 workers have no share of its concurrency, and leave its jobs on the queue", 0},
	} {
		c.p.App, c.p.Platform = "shop", push.FCM
		got := OfProvider(&operate.Overview{At: noon, Pauses: c.pauses}, &c.p)
		if got.State != c.state || got.Tone != c.tone || said(got.Why) != c.why || got.Name != "fcm of shop" || len(got.Pauses) != c.held {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for want, after := range map[string]time.Duration{"30d": 30 * 24 * time.Hour, "5d": 5*24*time.Hour + time.Minute, "has ended": -time.Hour} {
		got := OfProvider(&operate.Overview{At: noon}, &operate.Provider{CredentialEnds: noon.Add(after)})
		if got.Credential != want || (got.CredentialTone == Wrong) != (want != "30d") {
			t.Errorf("%+v, want %s", got, want)
		}
	}
	o := &operate.Overview{At: noon, Workers: []control.Snapshot{{}}, Providers: []operate.Provider{{}, {Troubled: 1}, {Pause: "BadTopic"}}}
	if got := said(SayProviders(o)); got != "1 of 3 providers is in trouble; 1 of 3 providers is held back." {
		t.Error(got)
	}
}

func TestReasonThatAsksForFewerPushesIsWarning(t *testing.T) {
	t.Parallel()
	for _, reason := range asksForLess {
		if means, _ := Reason(push.Rejected, string(reason)); means == "" || ReasonTone(reason) != Warns {
			t.Errorf("%s is no reason", reason)
		}
	}
}

func TestServer(t *testing.T) {
	t.Parallel()
	for want, n := range map[string]redisconn.Node{
		"": {}, "does not answer: EOF": {Error: "EOF"}, "its last snapshot failed": {Failing: "its last snapshot failed"},
		"1.0 MiB of 4.0 MiB (25 %), last snapshot 12:00, its clock is 1s behind this machine's": {Version: "7.4.0", UsedMemory: 1 << 20, MaxMemory: 4 << 20, LastSave: noon, AheadBy: -time.Second},
	} {
		if got := OfServer("redis", n); said(got.State) != want || (got.Tone == Wrong) != (n.Error+n.Failing != "") {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}

// One formatter writes every duration.
func TestSpan(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0s": -time.Second, "2.3ms": 2340 * time.Microsecond, "590ms": 590 * time.Millisecond, "9.8s": 9840 * time.Millisecond, "42s": 42 * time.Second,
		"2m30s": 150 * time.Second, "1h": time.Hour, "47h5m": 47*time.Hour + 5*time.Minute, "3d4h": 76 * time.Hour,
	} {
		if got := Span(d); got != want {
			t.Errorf("%s: %s", d, got)
		}
	}
}

// Until a worker ends an expired notification, the text says that it has expired.
func TestExpiredNotificationWaitsForItsEnd(t *testing.T) {
	t.Parallel()
	s := &inspect.Status{Record: &store.Record{State: push.Waiting, ExpiresAt: noon.Add(-15 * time.Second)}, Waits: &inspect.Waits{For: inspect.ForAttempt, Until: noon.Add(20 * time.Second)}}
	if w := Waits(s, noon); len(w.For) != 1 || said(w.For[0]) != "its end: it has expired, and ends at its next attempt" {
		t.Errorf("%+v", w)
	}
}
