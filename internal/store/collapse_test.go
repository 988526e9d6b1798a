package store_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/push"
)

// The newest notification takes the claim. Each call names the elder if Collapse has ended it. At
// its next call, an older notification that is in flight or never had the claim is not the newest.
func TestCollapseKeepsNewest(t *testing.T) {
	redistest.OverAll(t, func(t *testing.T, client redis.UniversalClient, prefix string) {
		producer := push.NewProducer(client, prefix, 0).WithShards(1)
		at := storetest.First(t, store.NewRecords(client, prefix, 0).WithShards(1))
		start := time.Now()
		ids := []string{"0", "1", "2", "3", "4"}
		for _, id := range ids {
			n := &push.Notification{ID: id, App: "shop", User: "u", Title: "t", CollapseKey: "k", Targets: []push.Target{{Platform: push.FCM, Token: "t"}}}
			must(t, second(producer.Enqueue(t.Context(), n)))
		}
		claim := func(i int, wantNewest bool, wantElder string) {
			t.Helper()
			found, err := at.Collapse(t.Context(), store.CollapseKey{App: "shop", User: "u", Key: "k"}, ids[i], start.Add(time.Duration(i)*time.Millisecond), push.Contents)
			if heir := wantElder != "" || i == 3; err != nil || found != (store.Collapsed{Newer: !wantNewest, Heir: wantNewest && heir, Elder: wantElder}) {
				t.Errorf("%s: %+v, %v", ids[i], found, err)
			}
		}
		state := func(id string, want push.State) {
			t.Helper()
			if record, err := at.Lookup(t.Context(), id); err != nil || record.State != want {
				t.Errorf("%s: %+v, %v, want it %s", id, record, err, want)
			}
		}
		claim(1, true, "")
		claim(2, true, "1")
		claim(2, true, "1") // as after a crash
		state("1", push.Superseded)
		claim(0, false, "")
		job := storetest.ClaimJob(t, client, at, push.Default.Queue(), "2")
		claim(3, true, "")
		state("2", push.Waiting)
		must(t, at.PutOff(t.Context(), job, &store.PutOff{Return: store.Return{Why: store.Deferred, After: time.Hour}}))
		claim(4, true, "3")
		state("3", push.Superseded)
		state("2", push.Waiting)
		must(t, client.Del(t.Context(), at.Key("collapse:shop/u/k")).Err()) // the claim may expire while an older notification waits
		claim(2, false, "")
	})
}
