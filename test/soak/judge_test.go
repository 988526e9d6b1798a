//go:build soak && unix

package soak

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/violations"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/judge"
	"github.com/pushpace/pushpace/test/rig"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// A delivery is a ledger's entry of an accepted push, with its notification and target.
type delivery struct {
	standin.Entry
	*push.Notification
	target int
}

// notification returns the enqueued notification with this ID.
func (s *soak) notification(id string) *push.Notification {
	var i int
	switch {
	case strings.HasPrefix(id, "last-"):
		fmt.Sscanf(id, "last-%d", &i)
		return &push.Notification{ID: id, User: fmt.Sprint("user-", i), Category: rare, Targets: []push.Target{{Platform: push.FCM, Token: id}}}
	case strings.HasPrefix(id, "hostile-"):
		return &push.Notification{ID: id, User: id, Targets: []push.Target{{Platform: push.FCM, Token: id}}}
	}
	fmt.Sscanf(id, "s-%d", &i)
	n, _ := soakNotification(s.seed, i)
	return n
}

// judge compares the ledgers, the timelines and the records.
func (s *soak) judge(t *testing.T) {
	t.Helper()
	var deliveries []delivery
	for _, e := range append(s.APNs.Ledger().Entries(), s.FCM.Ledger().Entries()...) {
		n, target := s.notification(e.Notification), s.target(e)
		if target < 0 || n.ID != e.Notification {
			t.Fatalf("a push of %q to %q", e.Notification, e.Token)
		}
		deliveries = append(deliveries, delivery{e, n, target})
	}
	slices.SortFunc(deliveries, func(a, b delivery) int { return a.At.Compare(b.At) })
	states := s.judgeRecords(t, deliveries)
	again := s.judgeDuplicates(t, deliveries)
	s.judgeLimits(t, deliveries)
	s.judgeAudit(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Logf("%d accepted: %v; %d pushes, %d of them again; %d troubles; %d hostile jobs; %d audits in motion",
		len(s.accepted), states, len(deliveries), again, len(s.windows), s.hostile, s.audits)
}

// judgeRecords checks that every accepted notification has ended, that the record of a push that a
// provider accepted says accepted or perhaps accepted, and that a carrier's push names its members.
func (s *soak) judgeRecords(t *testing.T, deliveries []delivery) map[push.State]int {
	t.Helper()
	taken := map[string][]delivery{}
	for _, d := range deliveries {
		taken[d.ID] = append(taken[d.ID], d)
	}
	records := store.NewRecords(s.Client, "", 0)
	states, told := map[push.State]int{}, map[string][]string{}
	for id := range s.accepted {
		record, _, err := records.Lookup(t.Context(), store.Ref{ID: id})
		if err != nil {
			t.Errorf("%s was accepted: %v", id, err)
			continue
		}
		states[record.State]++
		if record.State == push.Digested {
			told[record.Into] = append(told[record.Into], id)
		}
		for target, o := range record.Outcomes {
			if o.Kind == providers.Delivered.String() && !slices.ContainsFunc(taken[id], func(d delivery) bool { return d.target == target }) {
				t.Errorf("target %d of %s is told as delivered, and in no ledger: %+v", target+1, id, record)
			}
		}
		if record.State == push.Muted && s.notification(id).Priority == push.Critical {
			t.Errorf("%s is critical, and was muted: %+v", id, record)
		}
		if record.State == push.Delivered && len(taken[id]) == 0 {
			t.Errorf("%s is delivered, and in no ledger: %+v", id, record)
		}
		for _, d := range taken[id] {
			if d.target >= len(record.Outcomes) {
				t.Errorf("target %d of %s is in the ledger, and its record knows nothing of it: %+v", d.target+1, id, record)
				continue
			}
			if o := record.Outcomes[d.target]; o.Kind != providers.Delivered.String() && !o.Ambiguous {
				t.Errorf("target %d of %s is in the ledger at %s, amid %v, and its record says %+v: %s, with %d attempts from %s to %s", d.target+1, id,
					d.At.Format(time.StampMilli), during(s.windows, d.At), o, record.State, record.Attempts, record.FirstAttempt.Format(time.StampMilli), record.Ended.Format(time.StampMilli))
			}
		}
	}
	s.JudgeTold(t, told, s.Sent())
	if len(told) == 0 {
		t.Error("nobody has joined another")
	}
	counts, err := records.Counts(t.Context())
	rig.Must(t, err)
	for state, n := range states {
		if counts.Ended[state] < int64(n) {
			t.Errorf("%d are %s, and %d are counted", n, state, counts.Ended[state])
		}
	}
	ended := int64(0)
	for n := range maps.Values(counts.Ended) {
		ended += n
	}
	if ended != counts.Accepted || counts.Accepted != int64(len(s.accepted)) || counts.Malformed > int64(s.hostile) {
		t.Errorf("%d were accepted: %+v", len(s.accepted), counts)
	}
	return states
}

// judgeDuplicates checks that no push is sent twice, except one that was in flight during a trouble, or
// that its provider did not confirm.
func (s *soak) judgeDuplicates(t *testing.T, deliveries []delivery) (again int) {
	t.Helper()
	troubles := slices.Clone(s.windows)
	for _, d := range deliveries {
		if s.closes(d) { // all pushes on the connection get no answer
			troubles = append(troubles, window{d.At, d.At, breaks[d.Targets[d.target].Platform]})
		}
	}
	before := map[string]delivery{}
	for _, d := range deliveries {
		key := pushOf(d.Entry)
		if first, ok := before[key]; ok {
			again++
			if !s.underWay[key] && !slices.ContainsFunc(troubles, first.met) {
				t.Errorf("%s was accepted at %s and again at %s, without a trouble", key, first.At.Format(time.StampMilli), d.At.Format(time.StampMilli))
			}
		}
		before[key] = d
	}
	return again
}

// breaks is the trouble of each platform's provider.
var breaks = map[push.Platform]mishapKind{push.APNs: breakAPNs, push.FCM: breakFCM}

// closes reports whether the provider accepts the push and ends the connection.
func (s *soak) closes(d delivery) bool {
	i := 0
	if _, err := fmt.Sscanf(d.ID, "s-%d", &i); err != nil {
		return false
	}
	return slices.ContainsFunc(oddAnswers(s.seed, i, d.Notification, d.Targets[d.target].Platform), func(a standin.Answer) bool { return a.Accepts() })
}

// met reports whether the trouble may have lost the push's answer or record. Pauses and mutes lose
// nothing, and neither does trouble of the other provider.
func (d delivery) met(w window) bool {
	const around = 500 * time.Millisecond
	switch w.why {
	case pauseSome, muteSome:
		return false
	case breakAPNs, breakFCM:
		if w.why != breaks[d.Targets[d.target].Platform] {
			return false
		}
	}
	return !d.At.Before(w.from.Add(-around)) && !d.At.After(w.to.Add(around))
}

// judgeLimits checks that the admissions keep the limits by the limiter's clock, and that no user
// receives a second rare notification.
func (s *soak) judgeLimits(t *testing.T, deliveries []delivery) {
	t.Helper()
	longest := time.Duration(0)
	for _, w := range s.windows {
		if w.why == stopWorker || redisMishap(w.why) {
			longest = max(longest, w.to.Sub(w.from))
		}
	}
	categories := map[string]throttle.Policy{"orders": soakOrders, rare: soakRare, news: s.news}
	// a worker without Redis, or frozen, learns of a change later
	h := judge.ReadHistory(t, limits.NewOverrides(s.Client, "", 0), soakDefault, categories, time.Second+longest+time.Second)
	admitted := judge.Admissions(t, s.Client, "shop", soakUsers, s.Sent(), slices.Collect(maps.Keys(categories))...)
	for i := range admitted {
		admitted[i].Zone = clocks(t, zoneNamed(admitted[i].User))
	}
	if found := violations.FindInForce(admitted, h.InForce, time.Millisecond); len(found) > 0 {
		t.Errorf("%d of %d admissions exceed the limits in force, such as %+v", len(found), len(admitted), found[0])
	}
	got := map[string]string{} // a user's rare notification
	for _, d := range deliveries {
		if d.Category != rare {
			continue
		}
		if first, ok := got[d.User]; ok && first != d.ID {
			t.Errorf("%s got %s at %s besides %s: %v", d.User, d.ID, d.At.Format(time.TimeOnly), first, during(s.windows, d.At))
		}
		got[d.User] = d.ID
	}
	if len(got) < soakUsers*9/10 { // for some users the slot was used by a push that did not arrive
		t.Errorf("only %d of %d users received a rare notification", len(got), soakUsers)
	}
}

// during returns the troubles at that instant.
func during(windows []window, at time.Time) (why []mishapKind) {
	for _, w := range windows {
		if !at.Before(w.from.Add(-time.Second)) && !at.After(w.to.Add(time.Second)) {
			why = append(why, w.why)
		}
	}
	return why
}

// judgeAudit checks that the audit is exact at rest, and never reported a missing notification.
func (s *soak) judgeAudit(t *testing.T) {
	t.Helper()
	status, out := s.program(20*time.Second, nil, "audit", "--json")
	var audit inspect.Audit
	if err := json.Unmarshal([]byte(out), &audit); err != nil || status != rig.Done || audit.Difference != 0 || audit.InFlight != 0 {
		t.Errorf("audit: exit status %d: %s, %v", status, out, err)
		for _, job := range s.inHand(t.Context()) {
			t.Errorf("in hand still: %s", job)
		}
	}
	if len(s.wolves) > 0 || s.audits == 0 {
		t.Errorf("%d of %d audits in motion found something missing: %s", len(s.wolves), s.audits, s.wolves)
	}
}
