package rig

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/violations"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/apns/apnstest"
	"github.com/pushpace/pushpace/providers/fcm/fcmconfig"
	"github.com/pushpace/pushpace/providers/fcm/fcmtest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/judge"
	"github.com/pushpace/pushpace/throttle"
)

// A CrashSite has a Redis that a test can kill, and stand-ins inside the test.
type CrashSite struct {
	Setup
	Server *redistest.Server // nil on a Cluster
	Client redis.UniversalClient
	StandIns
	judge.Digests
}

// NewCrashSite starts a Redis and stand-ins. latency is the typical time of their answers.
func NewCrashSite(t *testing.T, policy throttle.Policy, latency time.Duration) *CrashSite {
	t.Helper()
	server := redistest.Start(t, redistest.AppendOnly())
	c := StandInsBeside(t, strconv.Quote(server.Addr()), policy, latency)
	c.Server, c.Client = server, server.Client(t)
	return c
}

// StandInsBeside returns a CrashSite on the Redis at the address, without a client.
func StandInsBeside(t *testing.T, address string, policy throttle.Policy, latency time.Duration) *CrashSite {
	t.Helper()
	c := new(CrashSite)
	var to credentials
	c.StandIns, to = startStandIns(t, latency, c.See)
	rates := make([]string, len(policy.Rates))
	for i, r := range policy.Rates {
		rates[i] = r.String()
	}
	c.Dir = Write(t, "config.yaml", fmt.Sprintf(`
redis: {address: %s}
limits:
  default: {min_gap: %s, rates: [%s]}
apps:
  shop:
    apns: {topic: %s, environment: production, key_file: %q, key_id: %s, team_id: %s, endpoint: %q, root_ca_file: %q}
    fcm: {credentials_file: %q, endpoint: %q, root_ca_file: %q}
`, address, policy.MinGap, strings.Join(rates, ", "),
		to.apns.Topic, to.apns.KeyFile, to.apns.KeyID, to.apns.TeamID, to.apns.Endpoint, to.apns.RootCAFile,
		to.fcm.CredentialsFile, to.fcm.Endpoint, to.fcm.RootCAFile))
	return c
}

// Enqueue enqueues notification i. It tries for a minute until Redis accepts the notification.
func (c *CrashSite) Enqueue(t *testing.T, producer *push.Producer, i int, user string) {
	n := &push.Notification{
		ID: fmt.Sprintf("n-%d", i), App: "shop", User: user, Title: "hello",
		Targets: []push.Target{{Platform: push.APNs, Token: fmt.Sprintf("%064x", i)}},
	}
	if i%2 == 1 {
		n.Targets[0] = push.Target{Platform: push.FCM, Token: fmt.Sprintf("device-%d", i)}
	}
	switch FateOf(i) {
	case expiring:
		n.TTL = push.Duration(20 * time.Second)
	case collapsing:
		n.CollapseKey = "latest"
	case Cancelled:
		n.Thread = withdrawn
	}
	succeeds(t, "enqueue "+n.ID, func() error { _, err := producer.Enqueue(t.Context(), n); return err })
}

// succeeds calls the function for a minute, as Redis may be away, until it returns no error.
func succeeds(t *testing.T, what string, f func() error) {
	t.Helper()
	var err error
	if !eventually.Within(time.Minute, func() bool { err = f(); return err == nil }) {
		t.Errorf("%s: %v", what, err)
	}
}

// A fate is the way in which a notification ends, unless it is sent before.
type fate int

const (
	sent fate = iota
	expiring
	collapsing
	Cancelled
)

// FateOf returns the fate of notification i. Each user has some of each fate.
func FateOf(i int) fate {
	switch (i/200 + i) % 5 {
	case 1:
		return expiring
	case 2:
		return collapsing
	case 3:
		return Cancelled
	}
	return sent
}

// Cancel cancels the notification. It tries for a minute until Redis answers.
func (c *CrashSite) Cancel(t *testing.T, producer *push.Producer, id string) {
	succeeds(t, "cancel "+id, func() error {
		err := producer.Cancel(t.Context(), id)
		if errors.Is(err, push.ErrEnded) || errors.Is(err, push.ErrUnderWay) {
			return nil
		}
		return err
	})
}

// withdrawn is the thread of notifications with the fate Cancelled.
const withdrawn = "withdrawn"

// Withdraw ends the user's notifications with the fate Cancelled. It tries for a minute until Redis
// answers.
func (c *CrashSite) Withdraw(t *testing.T, producer *push.Producer, user string) {
	succeeds(t, "withdraw from "+user, func() error {
		_, err := producer.Withdraw(t.Context(), "shop", user, push.Group{Thread: withdrawn})
		return err
	})
}

// Delivered returns the number of pushes that the stand-ins have accepted.
func (c *CrashSite) Delivered() int { return c.APNs.Ledger().Len() + c.FCM.Ledger().Len() }

// Kill kills the worker, and returns how many notifications the workers had sent, or were
// sending, without a record of their end.
func (c *CrashSite) Kill(t *testing.T, p *Program) int64 {
	t.Helper()
	counts, err := store.NewRecords(c.Client, "", 0).Counts(t.Context())
	Must(t, err)
	Must(t, p.Cmd.Process.Signal(syscall.SIGKILL))
	<-p.Done
	underWay := c.APNs.Count().InFlight + c.FCM.Count().InFlight
	return underWay + int64(len(c.Sent())) - counts.Ended[push.Delivered]
}

// Sent returns the IDs in the ledgers.
func (c *CrashSite) Sent() map[string]bool {
	sent := map[string]bool{}
	for _, e := range append(c.APNs.Ledger().Entries(), c.FCM.Ledger().Entries()...) {
		sent[e.Notification] = true
	}
	return sent
}

// Drained waits until n notifications have ended, and workers have given back the slots of the
// cancelled ones.
func (c *CrashSite) Drained(t *testing.T, n int) {
	t.Helper()
	records := store.NewRecords(c.Client, "", 0)
	var counts store.Counts
	held := int64(0)
	if !eventually.Within(5*time.Minute, func() bool {
		shards, err := records.All(t.Context())
		if err != nil {
			return false
		}
		held = 0
		for _, at := range shards {
			of, err := c.Client.ZCard(t.Context(), at.Key("taken:due")).Result()
			if err != nil {
				return false
			}
			held += of
		}
		counts, err = records.Counts(t.Context())
		return err == nil && counts.Accepted == int64(n) && counts.Waiting() == 0 && held == 0
	}) {
		t.Fatalf("not all have ended: %+v, and %d slots are not given back", counts, held)
	}
}

// Judge compares the ledgers of the stand-ins with the records of accepted notifications.
func (c *CrashSite) Judge(t *testing.T, accepted int, underWay int64, policy throttle.Policy, tolerance time.Duration, admitted []violations.Push) {
	t.Helper()
	entries := append(c.APNs.Ledger().Entries(), c.FCM.Ledger().Entries()...)
	slices.SortFunc(entries, func(a, b standin.Entry) int { return a.At.Compare(b.At) })
	seen := map[string]bool{}
	var pushes []violations.Push
	duplicates, again := int64(0), map[string]bool{} // again: users who received a duplicate
	for _, e := range entries {
		var i int
		if _, err := fmt.Sscanf(e.Notification, "n-%d", &i); err != nil {
			t.Fatalf("a push of %q", e.Notification)
		}
		user := fmt.Sprintf("user-%d", i%200)
		if seen[e.Notification] {
			duplicates++
			again[user] = true
			continue
		}
		seen[e.Notification] = true
		pushes = append(pushes, violations.Push{App: "shop", User: user, At: e.At})
	}
	ends := c.judgeEnds(t, accepted, seen)
	if len(admitted) < len(seen) {
		t.Errorf("%d notifications were sent, but only %d admitted", len(seen), len(admitted))
	}
	// At each kill a few pushes are still on their way to the stand-ins, as the workers share two
	// processors.
	if duplicates > underWay+30 {
		t.Errorf("%d duplicates, %d were under way at the kills", duplicates, underWay)
	}
	NotBefore(t, admitted, pushes, again) // without users who received a duplicate: its second push counts as the admission
	if found := violations.Find(pushes, policy, nil, tolerance); len(found) > 0 {
		t.Errorf("%d violations with a tolerance of %s, such as %+v", len(found), tolerance, found[0])
	}
	t.Logf("%d sent, %d duplicates, %d under way at the kills, tolerance %s, ends %v", len(seen), duplicates, underWay, tolerance, ends)
}

// judgeEnds checks each notification's end against whether it was sent.
func (c *CrashSite) judgeEnds(t *testing.T, accepted int, sentOnes map[string]bool) map[push.State]int {
	t.Helper()
	records := store.NewRecords(c.Client, "", 0)
	allowed := map[fate]push.State{expiring: push.Expired, collapsing: push.Superseded, Cancelled: push.Cancelled}
	ends := map[push.State]int{}
	for i := range accepted {
		id := fmt.Sprintf("n-%d", i)
		record, _, err := records.Lookup(t.Context(), store.Ref{ID: id})
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		ends[record.State]++
		doubtful := len(record.Outcomes) == 1 && record.Outcomes[0].Ambiguous
		switch {
		case record.State == push.Delivered && !sentOnes[id]:
			t.Errorf("%s ended as delivered, but was not sent", id)
		case record.State != push.Delivered && record.State != allowed[FateOf(i)]:
			t.Errorf("%s ended as %s: %+v", id, record.State, record)
		case record.State != push.Delivered && sentOnes[id] && !doubtful:
			t.Errorf("%s was sent, but ended as %s, as if it was not: %+v", id, record.State, record.Outcomes)
		}
	}
	return ends
}

// ClockError is the largest difference of the limiter's and the stand-ins' clocks.
const ClockError = 10 * time.Millisecond

// NotBefore checks that no push came before its admission. It skips the users in skipped.
func NotBefore(t *testing.T, admitted, pushes []violations.Push, skipped map[string]bool) {
	t.Helper()
	admissions := byUser(admitted)
	for user, at := range byUser(pushes) {
		for i, admission := range admissions[user] {
			if i < len(at) && !skipped[user] && at[i].Before(admission.Add(-ClockError)) {
				t.Errorf("a push of %s came at %s, but was admitted at %s", user, at[i], admission)
			}
		}
	}
}

// byUser returns the times of each user's pushes, in order.
func byUser(pushes []violations.Push) map[string][]time.Time {
	all := map[string][]time.Time{}
	for _, p := range pushes {
		all[p.User] = append(all[p.User], p.At)
	}
	for _, at := range all {
		slices.SortFunc(at, time.Time.Compare)
	}
	return all
}

// InHand returns the IDs of the jobs of default priority that workers have claimed, or had claimed when
// they were killed.
func InHand(t *testing.T, client redis.UniversalClient) []string {
	t.Helper()
	ids, err := client.LRange(t.Context(), shard.NewShards(client, "", 1)[0].QueueKey(push.Default.Queue(), "active"), 0, -1).Result()
	Must(t, err)
	return ids
}

// StandIns are servers in place of APNs and FCM.
type StandIns struct {
	APNs *apnstest.Server
	FCM  *fcmtest.Server
}

// credentials configure senders to the stand-ins.
type credentials struct {
	apns apns.Config
	fcm  fcmconfig.Config
}

// startStandIns starts stand-ins. typical is the typical time of their answers. seen, if not nil,
// gets the body of each request to FCM.
func startStandIns(t *testing.T, typical time.Duration, seen func([]byte)) (StandIns, credentials) {
	t.Helper()
	latency := standin.Latency{Typical: typical}
	a, err := apnstest.NewServer(apnstest.Options{Latency: latency})
	Must(t, err)
	t.Cleanup(func() { a.Close() })
	f, err := fcmtest.NewServer(fcmtest.Options{Latency: latency, Seen: seen})
	Must(t, err)
	t.Cleanup(func() { f.Close() })
	var to credentials
	dir := t.TempDir()
	to.apns, err = a.WriteCredentials(dir)
	Must(t, err)
	to.fcm, err = f.WriteCredentials(dir)
	Must(t, err)
	return StandIns{a, f}, to
}
