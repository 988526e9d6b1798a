//go:build soak && unix

package soak

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
)

// Critical notifications leave long before the bulk that waits in 16 shards.
func TestAClustersCriticalPassBulk(t *testing.T) {
	t.Parallel()
	r := newClusterRig(t, throttle.Policy{MinGap: time.Second})
	r.producer, r.records = r.producer.WithShards(16), r.records.WithShards(16)
	r.Env = append(r.Env, "PUSHPACE_REDIS__SHARDS=16")
	bulk := size(60_000, 6000)
	left := bulk / 5 // so many are no backlog any more
	of := func(id string, p push.Priority) *push.Notification {
		return &push.Notification{ID: id, App: "shop", User: id, Title: "hello", Priority: p, Targets: []push.Target{{Platform: push.FCM, Token: id}}}
	}
	var all []*push.Notification
	for i := range bulk {
		if all = append(all, of(fmt.Sprint("bulk-", i), push.Bulk)); len(all) == 500 || i == bulk-1 {
			r.enqueueAll(t, all)
			all = nil
		}
	}
	r.work(t, 2)
	r.workers[0].Until(t, "bulk is sent", func() bool { return r.Delivered() > 0 })
	accepted := map[string]time.Time{}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for r.Delivered() < bulk-left {
		id := fmt.Sprint("critical-", len(accepted))
		if _, err := r.producer.Enqueue(t.Context(), of(id, push.Critical)); err != nil {
			t.Fatal(err)
		}
		accepted[id] = time.Now()
		<-tick.C
	}
	r.rest(t, bulk+len(accepted))

	var bulkAt []time.Time
	criticalAt := map[string]time.Time{}
	for _, e := range r.FCM.Ledger().Entries() {
		if _, critical := accepted[e.Notification]; critical {
			criticalAt[e.Notification] = e.At
		} else {
			bulkAt = append(bulkAt, e.At)
		}
	}
	if len(bulkAt) != bulk || len(criticalAt) != len(accepted) {
		t.Errorf("%d bulk of %d are sent, %d critical of %d", len(bulkAt), bulk, len(criticalAt), len(accepted))
	}
	slices.SortFunc(bulkAt, time.Time.Compare)
	sentBy := func(at time.Time) int {
		n, _ := slices.BinarySearchFunc(bulkAt, at, time.Time.Compare)
		return n
	}
	var took []time.Duration
	var parts []float64 // of the bulk that waited: what a critical one has left behind
	most := 0
	for id, at := range accepted {
		took = append(took, criticalAt[id].Sub(at))
		behind := sentBy(criticalAt[id]) - sentBy(at)
		most, parts = max(most, behind), append(parts, float64(behind)/float64(bulk-sentBy(at)))
	}
	slices.Sort(parts)
	t.Logf("%d critical ones left within %s by the median and %s for 99 %%, behind %d bulk at most; %d bulk took %s",
		len(accepted), share(took, 50), share(took, 99), most, bulk, bulkAt[len(bulkAt)-1].Sub(bulkAt[0]).Round(time.Millisecond))
	if half := parts[len(parts)/2]; half > 0.5 { // behind all of it it would be 1
		t.Errorf("half of the critical ones left behind %.0f %% of the bulk that waited, and more", 100*half)
	}
}
