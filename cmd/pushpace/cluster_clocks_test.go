//go:build unix

package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/violations"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
)

// The clocks of the masters are half a minute apart. A user's limits go by one of them, also
// where the user's queue is on another master, and what is put off is sent when it is due.
func TestAClustersClocksDiffer(t *testing.T) {
	onlyOnClusters(t)
	t.Parallel()
	const users, each = 60, 4
	const apart = 30 * time.Second
	policy := throttle.Policy{MinGap: 2 * time.Second}
	r := newClusterRig(t, policy, redistest.Clocks(t, 0, apart, -apart))
	r.work(t, 2)
	var all []*push.Notification
	var names []string
	for i := range users {
		user := fmt.Sprint("user-", i)
		names = append(names, user)
		for k := range each {
			id := fmt.Sprint(user, "-", k)
			n := &push.Notification{ID: id, App: "shop", User: user, Title: "hello", Targets: []push.Target{{Platform: push.FCM, Token: id}}}
			if k == each-1 {
				n.NotBefore = time.Now().Add(3 * time.Second)
			}
			all = append(all, n)
		}
	}
	began := time.Now()
	r.enqueueAll(t, all)
	counts := r.rest(t, len(all))

	sent, last := map[string]bool{}, make([]time.Duration, len(r.nodes)) // by the master that has the user's limits
	for _, e := range r.fcm.Ledger().Entries() {
		if sent[e.Notification] {
			t.Errorf("%s is sent twice", e.Notification)
		}
		sent[e.Notification] = true
		var user, k int
		if _, err := fmt.Sscanf(e.Notification, "user-%d-%d", &user, &k); err != nil {
			t.Fatalf("a push of %q", e.Notification)
		}
		if n := all[user*each+k]; e.At.Before(n.NotBefore) {
			t.Errorf("%s is sent %s too early", n.ID, n.NotBefore.Sub(e.At))
		}
		node := slices.Index(r.nodes, r.masterOf(t, names[user]))
		last[node] = max(last[node], e.At.Sub(began))
	}
	for _, one := range last {
		for _, other := range last {
			if one-other > apart/2 { // all are as late where the machine is slow
				t.Errorf("the last of one master's users is sent after %s, and of another's after %s", one, other)
			}
		}
	}
	admitted := admissionsOf(t, r.client, "shop", names, sent)
	found := violations.Find(admitted, policy, nil, time.Millisecond)
	if len(sent) != len(all) || len(admitted) != len(all) || len(found) > 0 || counts.Deferred == 0 {
		t.Errorf("of %d %d are sent, %d admitted, %d against the limits, and %d were put off", len(all), len(sent), len(admitted), len(found), counts.Deferred)
	}
	t.Logf("%d accepted, %d lost, %d violations, put off %d times; the last of each master's are sent after %v", len(all), len(all)-len(sent), len(found), counts.Deferred, last)
}
