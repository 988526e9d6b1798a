package queue

import (
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// Jobs for a route without capacity are parked in the order of acceptance. New jobs of the route are
// parked too until any worker has pulled the parked jobs. Jobs of other routes pass.
func TestParkedJobsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		full, other := newTestWorker(t, client), newTestWorker(t, client)
		bound := func(n *testWorker, room ...int) {
			var bounds []store.Bound
			for _, r := range room {
				bounds = append(bounds, store.Bound{Name: "shop/apns", Room: r})
			}
			n.Reserve = roomFor(bounds...)
		}
		pull := func(n *testWorker, want ...string) {
			t.Helper()
			jobs, err := n.take(n.queue)
			var ids []string
			for _, job := range jobs {
				ids = append(ids, job.ID)
				n.got[job.ID] = job
			}
			if err != nil || !slices.Equal(ids, want) {
				t.Errorf("pulled %v, %v, want %v", ids, err, want)
			}
		}
		parked := func(n *testWorker, want ...string) {
			t.Helper()
			if is := n.parked[n.queue]; !slices.Equal(is, want) {
				t.Errorf("parked names are %v, want %v", is, want)
			}
		}
		elsewhere := func(id string) {
			t.Helper()
			n := note(id)
			n.User, n.Targets = "bob", []push.Target{{Platform: push.FCM, Token: "f"}}
			_, err := push.NewProducer(client, "", 0).WithShards(1).Enqueue(t.Context(), n)
			must(t, err)
		}
		full.enqueue("1", "2", "3")
		elsewhere("passes")
		bound(full, 0)
		pull(full, "passes")
		parked(full, "shop/apns")
		full.enqueue("4", "5")
		bound(full, 2)
		pull(full, "1", "2")
		parked(full, "shop/apns")
		elsewhere("passes, too")
		pull(other, "3", "4", "5", "passes, too")
		parked(other)
		pull(full)
		parked(full)
		if left := client.Exists(t.Context(), full.key("parked"), full.key("parked:shop/apns"), full.key("retry")).Val(); left > 0 {
			t.Errorf("%d keys of parked jobs are left", left)
		}

		// A returned job goes before jobs that were accepted later.
		full.enqueue("6", "7")
		bound(full, 1)
		pull(full, "6")
		full.givesBack("6")
		pull(other, "7", "6")
	})
}

// roomFor returns a Config.Reserve with these bounds.
func roomFor(bounds ...store.Bound) func(string, int, []string) ([]store.Bound, func([]Job)) {
	return func(string, int, []string) ([]store.Bound, func([]Job)) {
		return slices.Clone(bounds), func(jobs []Job) {
			for i := range jobs {
				jobs[i].Arrived = func() {}
			}
		}
	}
}
