package store_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
)

// Reap gives back the job of a dead asynq server, which named no term, and ignores an entry without
// a task.
func TestReapReturnsJobsWithoutTerm(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		r := newBoardRig(t, t, client)
		r.ids = []string{"left", "gone"}
		a := r.at.NewAcceptance("left", boardQueue, r.payload("left", "a", time.Time{}), nil, store.Facts{App: "a", User: "u"})
		r.must(r.records.NewAcceptor().Enqueue(r.ctx, a))
		r.must(client.LMove(r.ctx, r.key("pending"), r.key("active"), "RIGHT", "LEFT").Err())
		r.must(client.HSet(r.ctx, r.key("t:left"), "state", "active").Err())
		r.must(client.LPush(r.ctx, r.key("active"), "gone").Err())
		if n, err := r.at.Reap(r.ctx); err != nil || n != 1 {
			t.Errorf("%d come back, %v", n, err)
		}
		if n, err := r.at.GiveBack(r.ctx, boardQueue, []store.Job{{ID: "left"}, {ID: "gone"}}); err != nil || n != 0 { // by a worker that has found the same entries
			t.Errorf("%d come back again, %v", n, err)
		}
		if b := r.read(); b.place("left") != "pending" || b.fault("left") != "" || b.place("gone") != "" || len(b.tasks["gone"]) > 0 {
			t.Errorf("%+v", b)
		}
	})
}
