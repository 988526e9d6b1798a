package worker_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// queued returns all waiting notifications of the selection by ID.
func (r *rig) queued(s inspect.Selection) map[string]inspect.Queued {
	r.t.Helper()
	all := map[string]inspect.Queued{}
	for cursor := ""; ; {
		page, err := r.inspector().Queued(r.t.Context(), s, cursor)
		must(r.t, err)
		for _, q := range page.Waiting {
			all[q.ID] = q
		}
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}

// shares returns the counts by cause, from a sample of that size of each queue and state.
func (r *rig) shares(sample int) map[inspect.Cause]inspect.Share {
	r.t.Helper()
	list, err := r.inspector().Sampling(sample).Waits(r.t.Context())
	must(r.t, err)
	all := map[inspect.Cause]inspect.Share{}
	for _, s := range list {
		all[s.For] = s
	}
	return all
}

// Cancels during the paging of a list move the remaining jobs, and the pages still contain all of these.
func TestQueuedPagesMissNothingDuringCancels(t *testing.T) {
	r := newRig(t, oneRedis(t), unlimited)
	const n = 650
	stay := map[string]bool{}
	var all []*push.Notification
	for i := range n {
		all = append(all, to(fmt.Sprintf("n-%d", i)))
		stay[all[i].ID] = true
	}
	r.enqueueTogether(all)
	taken := 0
	for cursor := ""; ; {
		page, err := r.inspector().Queued(t.Context(), inspect.Selection{}, cursor)
		must(t, err)
		for i, q := range page.Waiting {
			delete(stay, q.ID)
			if i%2 == 0 && taken < 200 {
				taken++
				must(t, r.cancel(push.Ref{ID: q.ID}))
			}
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if len(stay) > 0 || taken < 200 {
		t.Errorf("%d are missed that stay, %d were taken", len(stay), taken)
	}
	if page, err := r.inspector().Queued(t.Context(), inspect.Selection{}, "6-9000000000000000000"); err != nil || len(page.Waiting) != 200 {
		t.Errorf("from far beyond the end: %d, %v", len(page.Waiting), err)
	}
	if _, err := r.inspector().Queued(t.Context(), inspect.Selection{}, "99-x"); !errors.Is(err, store.ErrCursor) {
		t.Errorf("%v", err)
	}
}

// A job that is too long, or has a key of the wrong type, is listed without its fields.
func TestUnreadableJobsAreListed(t *testing.T) {
	client := oneRedis(t)
	r := newRig(t, client, unlimited)
	queue := queueKey(client, push.Default.Queue(), "")
	r.enqueue(to("right"))
	later := time.Now().Add(time.Hour)
	for _, id := range []string{"scheduled", "typed"} {
		n := to(id)
		n.NotBefore = later
		r.enqueue(n)
	}
	must(t, client.Set(t.Context(), queue+"t:strange", "x", 0).Err())
	must(t, client.LPush(t.Context(), queue+"pending", "strange").Err())
	must(t, client.HSet(t.Context(), queue+"t:long", "state", "retry", "msg", strings.Repeat("x", store.MaxEnvelopeSize+1)).Err())
	must(t, client.ZAdd(t.Context(), queue+"retry", redis.Z{Score: float64(later.Unix()), Member: "long"}).Err())
	must(t, client.ZAdd(t.Context(), queue+"retry", redis.Z{Score: float64(later.Unix()), Member: "gone"}).Err())
	must(t, client.Del(t.Context(), queue+"t:typed").Err())
	must(t, client.Set(t.Context(), queue+"t:typed", "x", 0).Err())

	all := r.queued(inspect.Selection{})
	if len(all) != 5 || all["right"].App != "shop" || all["strange"].App != "" || all["long"].App != "" || all["typed"].For != inspect.ForSchedule {
		t.Errorf("waiting: %+v", all)
	}
	if shares := r.shares(10); shares[inspect.ForWorker].Count != 2 || shares[inspect.ForSchedule].Count != 2 {
		t.Errorf("%+v", shares)
	}
	if err := r.cancel(push.Ref{ID: "typed"}); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("cancel what cannot be read: %v", err)
	}
	must(t, r.cancel(push.Ref{ID: "scheduled"}))
}
