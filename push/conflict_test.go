package push_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
)

// order is the notification that comes again.
func order(id string, change func(*push.Notification)) *push.Notification {
	n := &push.Notification{
		ID: id, App: "shop", User: "ada", Category: "orders", Targets: []push.Target{{Platform: push.APNs, Token: "00fcab"}, {Platform: push.FCM, Token: "t:1"}},
		Title: "Shipped", Data: map[string]string{"order": "4711", "by": "air"},
		APNs: json.RawMessage(`{"aps": {"interruption-level": "active", "relevance-score": 0.5}}`), TTL: push.Duration(time.Hour),
	}
	if change != nil {
		change(n)
	}
	return n
}

// An ID that comes again is the same notification, unless it is of another user
// or content: that is refused, however it is enqueued, and nothing is queued.
func TestTheSameIDIsTheSameNotification(t *testing.T) {
	t.Parallel()
	same := map[string]func(*push.Notification){
		"as it was":     nil,
		"another ttl":   func(n *push.Notification) { n.TTL = push.Duration(2 * time.Hour) },
		"no ttl":        func(n *push.Notification) { n.TTL = 0 },
		"another end":   func(n *push.Notification) { n.TTL, n.ExpiresAt = 0, time.Now().Add(200*365*24*time.Hour) },
		"another begin": func(n *push.Notification) { n.TTL, n.NotBefore = 0, time.Now().Add(time.Hour) },
		"otherwise written": func(n *push.Notification) {
			n.APNs, n.FCM = json.RawMessage(`{"aps":{"relevance-score":5e-1,"interruption-level":"active"}}`), json.RawMessage(`null`)
		},
	}
	other := map[string]func(*push.Notification){
		"user":     func(n *push.Notification) { n.User = "ben" },
		"app":      func(n *push.Notification) { n.App = "bank" },
		"category": func(n *push.Notification) { n.Category = "" },
		"priority": func(n *push.Notification) { n.Priority = push.Critical },
		"title":    func(n *push.Notification) { n.Title = "Delivered" },
		"token":    func(n *push.Notification) { n.Targets[1].Token = "t:2" },
		"targets":  func(n *push.Notification) { n.Targets[0], n.Targets[1] = n.Targets[1], n.Targets[0] },
		"data":     func(n *push.Notification) { n.Data["by"] = "sea" },
		"raw": func(n *push.Notification) {
			n.APNs = json.RawMessage(`{"aps":{"relevance-score":0.6,"interruption-level":"active"}}`)
		},
	}
	test := func(t *testing.T, client redis.UniversalClient) {
		producer := push.NewProducer(client, "", 0)
		enqueue := func(n *push.Notification) (push.Receipt, error) { return producer.Enqueue(t.Context(), n) }
		inABatch := func(n *push.Notification) (push.Receipt, error) {
			results := producer.EnqueueAll(t.Context(), []*push.Notification{order("", nil), n, order("", nil)})
			for _, i := range []int{0, 2} {
				if results[i].Err != nil || results[i].Known {
					t.Errorf("a neighbour in the batch: %+v", results[i])
				}
			}
			return results[1].Receipt, results[1].Err
		}
		for _, first := range []*push.Notification{
			order("due", nil),
			order("scheduled", func(n *push.Notification) { n.NotBefore = time.Now().Add(30 * time.Minute) }),
		} {
			if receipt, err := enqueue(first); err != nil || receipt.Known {
				t.Fatalf("%s: %+v, %v", first.ID, receipt, err)
			}
			for how, again := range map[string]func(*push.Notification) (push.Receipt, error){"alone": enqueue, "in a batch": inABatch} {
				for what, change := range same {
					if receipt, err := again(order(first.ID, change)); err != nil || !receipt.Known || receipt.ID != first.ID {
						t.Errorf("%s, again %s, %s: %+v, %v", first.ID, how, what, receipt, err)
					}
				}
				for what, change := range other {
					if receipt, err := again(order(first.ID, change)); !errors.Is(err, push.ErrConflict) || receipt.Known || receipt.ID != first.ID {
						t.Errorf("%s, again %s with another %s: %+v, %v", first.ID, how, what, receipt, err)
					}
				}
			}
		}
		counts, err := ledger.NewRecords(client, "", 0).Counts(t.Context())
		if want := int64(2 + 2*2*(len(same)+len(other))); err != nil || counts.Accepted != want {
			t.Errorf("accepted %d, want %d (%v)", counts.Accepted, want, err)
		}
	}
	redistest.Over(t, test)
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		node := redistest.StartCluster(t, 1)[0]
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{node.Addr()}})
		t.Cleanup(func() { _ = client.Close() })
		test(t, client)
	})
}

// What the record says of a notification.
func TestRecordTellsWhoseNotificationItIs(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		producer, records := push.NewProducer(client, "", 0), ledger.NewRecords(client, "", 0)
		begin := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
		end := begin.Add(time.Hour)
		for _, n := range []*push.Notification{
			order("due", func(n *push.Notification) { n.TTL, n.ExpiresAt = 0, end }),
			order("scheduled", func(n *push.Notification) { n.TTL, n.NotBefore, n.ExpiresAt = 0, begin, end }),
		} {
			if _, err := producer.Enqueue(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			record, err := records.Lookup(t.Context(), n.ID)
			if err != nil || record.App != "shop" || record.User != "ada" || record.Category != "orders" || !record.NotBefore.Equal(n.NotBefore) || !record.ExpiresAt.Equal(end) {
				t.Errorf("%s: %+v, %v", n.ID, record, err)
			}
		}
	})
}
