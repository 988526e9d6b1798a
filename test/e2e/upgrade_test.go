//go:build e2e && unix

package e2e

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/violations"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/judge"
	"github.com/pushpace/pushpace/test/rig"
	"github.com/pushpace/pushpace/throttle"
)

// record makes the test write the dump of the version that is checked out:
//
//	go test -tags e2e ./test/e2e -run 'TestUpgrade$' -record VERSION
var record = flag.String("record", "", "write testdata/upgrade/`VERSION`.txt by this version's program")

const upgradeConfig = `
redis: {address: %q}
limits:
  default: {min_gap: 200ms, rates: [5/10s]}
  categories: {daily: {rates: [1/24h]}, news: {rates: [1/1s]}, summary: {rates: [1/30s]}}
apps: {demo: {simulated: true}}
`

// upgradeOverrides are set, and upgradePolicies in force, before the first notification.
var upgradeOverrides = [][]string{
	{"limits", "set", "--user", "slow", "--min-gap", "6s"},
	{"limits", "set", "--category", "news", "--rate", "1/8s"},
	{"limits", "mute", "--user", "quiet"},
	{"pause", "--category", "held"},
}

func upgradePolicies(p violations.Push) violations.InForce {
	rate := func(n int, period time.Duration) []throttle.Policy {
		return []throttle.Policy{{Rates: []throttle.Rate{{Count: n, Period: period}}}}
	}
	in := violations.InForce{General: []throttle.Policy{{MinGap: 200 * time.Millisecond, Rates: rate(5, 10*time.Second)[0].Rates}}}
	if p.User == "slow" {
		in.General = []throttle.Policy{{MinGap: 6 * time.Second}}
	}
	switch p.Category {
	case "news":
		in.Category = rate(1, 8*time.Second)
	case "summary":
		in.Category = rate(1, 30*time.Second)
	case "daily":
		in.Category = rate(2, 24*time.Hour) // the test raises the limit
	}
	return in
}

// A planned notification ends in the state end after the upgrade.
type planned struct {
	push.Notification
	end push.State
}

// upgradePlan returns four groups of notifications. The old version processes the first, is sending the
// second when it is killed, and never claims the third. A plain asynq client enqueues the fourth, last.
func upgradePlan(now time.Time) (processed, killed, queued, plain []planned) {
	add := func(to *[]planned, n int, user, category string, end push.State, change func(*push.Notification)) {
		for i := range n {
			p := planned{push.Notification{
				ID: fmt.Sprintf("%s-%d", user, i), App: "demo", User: user, Category: category, Title: fmt.Sprintf("%s-%d", user, i),
				Targets: []push.Target{{Platform: push.FCM, Token: "device-" + user}},
			}, end}
			if change != nil {
				change(&p.Notification)
			}
			*to = append(*to, p)
		}
	}
	for _, user := range []string{"ada", "bob", "eve"} {
		add(&processed, 20, user, "", push.Delivered, nil)
	}
	add(&processed, 5, "slow", "", push.Delivered, nil)
	add(&processed, 4, "reader", "news", push.Delivered, nil)
	add(&processed, 2, "day", "daily", push.Delivered, nil)
	add(&processed, 3, "patient", "held", push.Delivered, nil)
	add(&processed, 1, "brief", "held", push.Expired, func(n *push.Notification) { n.TTL = push.Duration(40 * time.Second) })
	add(&processed, 1, "quiet", "", push.Muted, nil)
	add(&processed, 1, "gone", "", push.Rejected, func(n *push.Notification) { n.App = "removed" })
	add(&processed, 1, "later", "", push.Delivered, func(n *push.Notification) { n.NotBefore = now.Add(35 * time.Second) })
	add(&processed, 1, "unlucky", "", push.Delivered, func(n *push.Notification) {
		n.Targets = []push.Target{{Platform: push.APNs, Token: "fade1503" + strings.Repeat("0", 56)}} // unavailable once
	})
	add(&processed, 3, "score", "summary", push.Delivered, func(n *push.Notification) { n.CollapseKey = "goals" })
	processed[len(processed)-2].end = push.Superseded // while the notification waits
	add(&processed, 5, "many", "summary", push.Digested, func(n *push.Notification) { n.Digest = judge.TellingDigest("likes") })
	processed[len(processed)-5].end = push.Delivered // no notification waits yet
	processed[len(processed)-4].end = push.Delivered // the next three join this digest

	for i := range 4 {
		add(&killed, 1, fmt.Sprint("flying-", i), "", push.Delivered, nil)
	}
	for i := range 10 {
		for _, priority := range rig.AllPriorities {
			add(&queued, 2, fmt.Sprint(priority, "-", i), "", push.Delivered, func(n *push.Notification) { n.Priority = priority })
		}
	}
	add(&plain, 2, "plain", "", push.Delivered, nil)
	return processed, killed, queued, plain
}

func upgradeSite(t *testing.T, answersIn time.Duration) (*rig.Site, rig.StandIns) {
	t.Helper()
	server := redistest.Start(t)
	s := &rig.Site{Client: server.Client(t)}
	s.Dir = rig.Write(t, "config.yaml", fmt.Sprintf(upgradeConfig, server.Addr()))
	return s, s.StandIns(t, answersIn)
}

// This version reads the Redis of an older version: queues, slots, admissions, overrides, mutes,
// pauses, digests, and the jobs of a killed worker. Each notification is sent once and within its
// limits, and the audit finds nothing missing.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	if *record != "" {
		writeDump(t, *record)
		return
	}
	dumps, err := filepath.Glob("testdata/upgrade/*.txt")
	if rig.Must(t, err); len(dumps) == 0 {
		t.Fatal("no version's dump is there")
	}
	for _, file := range dumps {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			rig.Must(t, err)
			upgrade(t, string(text))
		})
	}
}

func upgrade(t *testing.T, dump string) {
	s, standIns := upgradeSite(t, 10*time.Millisecond)
	rig.Load(t, s.Client, dump)
	records, producer := store.NewRecords(s.Client, "", 0), push.NewProducer(s.Client, "", 0)
	find := func(id string) *store.Record {
		t.Helper()
		r, _, err := records.Lookup(t.Context(), store.Ref{ID: id})
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		return r
	}
	processed, killed, queued, plain := upgradePlan(time.Now())
	accepted := slices.Concat(processed, killed, queued)
	before, waiting := map[string]push.State{}, 0
	for _, p := range accepted {
		r := find(p.ID)
		before[p.ID] = r.State
		switch {
		case r.State == push.Waiting:
			waiting++
		case r.State != p.end:
			t.Errorf("the old version ended %s as %s", p.ID, r.State)
		}
	}
	if waiting < len(queued)+len(killed)+20 {
		t.Fatalf("only %d wait", waiting)
	}
	sending := rig.InHand(t, s.Client) // the killed worker's jobs: granted before, and so sent in any order
	s.Audited(t)
	for _, id := range []string{"ada-0", "ada-19", "critical-3-1"} {
		p := accepted[slices.IndexFunc(accepted, func(p planned) bool { return p.ID == id })]
		if receipt, err := producer.Enqueue(t.Context(), &p.Notification); err != nil || !receipt.Known {
			t.Errorf("%s again: %+v, %v", id, receipt, err)
		}
	}

	worker := s.Serve(t) // only one, because two do not keep the exact order
	stays := map[string]bool{"day-1": true, "patient-0": true, "patient-1": true, "patient-2": true}
	ended := func(but map[string]bool) bool {
		for _, p := range slices.Concat(accepted, plain) {
			if r, _, err := records.Lookup(t.Context(), store.Ref{ID: p.ID}); !but[p.ID] && (err != nil || !r.State.Ended()) {
				return false
			}
		}
		return true
	}
	worker.Until(t, "all end but those that are kept", func() bool { return ended(stays) })
	for id := range stays {
		if r := find(id); r.State != push.Waiting {
			t.Errorf("%s ended as %s, though its limit or a pause keeps it", id, r.State)
		}
	}
	s.Run(t, rig.Done, "resume", "--category", "held")
	s.Run(t, rig.Done, "limits", "set", "--category", "daily", "--rate", "2/24h")
	_, err := producer.Enqueue(t.Context(), &push.Notification{
		ID: "quiet-again", App: "demo", User: "quiet", Title: "hello", Targets: []push.Target{{Platform: push.FCM, Token: "device-quiet"}},
	})
	rig.Must(t, err)
	worker.Until(t, "all end", func() bool { return ended(nil) && find("quiet-again").State.Ended() })
	s.Audited(t)
	s.Stop(t, worker)

	if state := find("quiet-again").State; state != push.Muted {
		t.Errorf("a muted user's notification ended as %s", state)
	}
	sent, order := map[string]int{}, map[string][]string{}
	for _, e := range slices.Concat(standIns.APNs.Ledger().Entries(), standIns.FCM.Ledger().Entries()) {
		user, _, _ := strings.Cut(e.Notification, "-")
		sent[e.Notification]++
		if !slices.Contains(sending, e.Notification) {
			order[user] = append(order[user], e.Notification)
		}
	}
	users := map[string]bool{}
	for _, p := range slices.Concat(accepted, plain) {
		r, want := find(p.ID), 0
		if p.end == push.Delivered && before[p.ID] != push.Delivered {
			want = 1
		}
		if r.State != p.end || sent[p.ID] != want {
			t.Errorf("%s ended as %s, want %s, and was sent %d times, want %d", p.ID, r.State, p.end, sent[p.ID], want)
		}
		if p.end == push.Digested && r.Into != "many-1" {
			t.Errorf("%s is told of in the push of %q", p.ID, r.Into)
		}
		if p.App == "demo" {
			users[p.User] = true
		}
	}
	for _, user := range []string{"ada", "bob", "eve", "slow", "reader"} {
		if ids := order[user]; !slices.IsSortedFunc(ids, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) }) {
			t.Errorf("%s got %v in this order", user, ids)
		}
	}
	var names []string
	for user := range users {
		names = append(names, user)
	}
	admitted := judge.AdmissionsOf(t, s.Client, "demo", names, nil, "daily", "news", "summary")
	if found := violations.FindInForce(admitted, upgradePolicies, time.Millisecond); len(found) > 0 {
		t.Errorf("%d of %d admissions exceed the limits, such as %+v", len(found), len(admitted), found[0])
	}
	letters, _ := s.Run(t, rig.Done, "dead", "list", "--json")
	if !strings.Contains(letters, `"gone-0"`) {
		t.Errorf("the dead letters lack gone-0: %s", letters)
	}
}

// writeDump runs this version's program, kills it, and dumps its Redis.
func writeDump(t *testing.T, version string) {
	const answersIn = 2 * time.Second // so that pushes are in flight at the kill
	s, standIns := upgradeSite(t, answersIn)
	for _, override := range upgradeOverrides {
		s.Run(t, rig.Done, override...)
	}
	processed, killed, queued, plain := upgradePlan(time.Now())
	producer, records := push.NewProducer(s.Client, "", 0), store.NewRecords(s.Client, "", 0)
	enqueue := func(all []planned) {
		for _, p := range all {
			_, err := producer.Enqueue(t.Context(), &p.Notification)
			rig.Must(t, err)
		}
	}
	worker := s.Serve(t)
	enqueue(processed)
	worker.Until(t, "some are sent, and all others wait", func() bool {
		for _, p := range processed {
			r, _, err := records.Lookup(t.Context(), store.Ref{ID: p.ID})
			rig.Must(t, err)
			switch {
			case (p.end == push.Digested || p.end == push.Muted || p.end == push.Rejected) && r.State != p.end, p.ID == "unlucky-0" && r.Attempts == 0,
				p.ID == "ada-0" && r.State != push.Delivered, p.ID == "many-1" && r.Deferrals == 0:
				return false
			}
		}
		return true
	})
	enqueue(killed)
	worker.Until(t, "some are being sent", func() bool { return standIns.FCM.Count().InFlight >= int64(len(killed)) })
	rig.Must(t, worker.Cmd.Process.Signal(syscall.SIGKILL))
	<-worker.Done
	for _, p := range killed {
		if !slices.Contains(rig.InHand(t, s.Client), p.ID) {
			t.Fatalf("%s was sent before the kill: record it again", p.ID)
		}
	}
	enqueue(queued)
	client := asynq.NewClientFromRedisClient(s.Client)
	for i, p := range plain {
		payload, err := json.Marshal(p.Notification)
		rig.Must(t, err)
		_, err = client.EnqueueContext(t.Context(), asynq.NewTask(store.TaskType, payload), asynq.Queue(push.Default.Queue()),
			asynq.ProcessIn(time.Duration(i)*10*time.Second))
		rig.Must(t, err)
	}
	dump := rig.Dump(t, s.Client)
	rig.Must(t, errors.Join(os.MkdirAll("testdata/upgrade", 0o755), os.WriteFile(filepath.Join("testdata/upgrade", version+".txt"), []byte(dump), 0o644)))
}
