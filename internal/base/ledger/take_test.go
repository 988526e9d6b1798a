package ledger_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
)

// before does something before the first command with that word.
type before struct {
	word string
	do   func()
	once sync.Once
}

func (*before) DialHook(next redis.DialHook) redis.DialHook { return next }
func (b *before) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if slices.Contains(cmd.Args(), any(b.word)) {
			b.once.Do(b.do)
		}
		return next(ctx, cmd)
	}
}
func (*before) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// What ends otherwise while it is taken is told as it has ended.
func TestTakeTellsWhatWasFaster(t *testing.T) {
	t.Parallel()
	options := redistest.Shared(t).Options()
	options.DB = redistest.Database(t)
	client := redistest.Connect(t, options)
	records := ledger.NewRecords(client, "", 0)
	producer := push.NewProducer(client, "", 0)
	for name, c := range map[string]struct {
		id   string
		job  bool
		word string // of the command before which it ends
	}{
		"before a second look":   {"looked", false, "asynq:{pushpace-default}:t:looked"},
		"without a job":          {"jobless", false, "settle"},
		"while its job is taken": {"taken", true, "settle"},
		"while it is noted":      {"noted", true, "note"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := &push.Notification{ID: c.id, App: "a", User: "u", Targets: []push.Target{{Platform: push.FCM, Token: "t"}}, Title: "t"}
			var err error
			if c.job {
				_, err = producer.Enqueue(t.Context(), n)
			} else {
				err = records.Arrive(t.Context(), n.ID, n.Priority.Queue(), ledger.Facts{App: n.App, User: n.User})
			}
			if err != nil {
				t.Fatal(err)
			}
			own := *options
			meanwhile := redistest.Connect(t, &own)
			meanwhile.AddHook(&before{word: c.word, do: func() {
				end := ledger.End{State: push.Expired}
				if first, err := records.Settle(t.Context(), c.id, &end); err != nil || !first {
					t.Errorf("%t, %v", first, err)
				}
			}})
			taken, err := ledger.NewRecords(meanwhile, "", 0).Take(t.Context(), c.id, push.Cancelled, push.Contents)
			if taken != nil || !errors.Is(err, push.ErrEnded) || !strings.HasSuffix(err.Error(), ": expired") {
				t.Errorf("%+v, %v", taken, err)
			}
		})
	}
}

// An attempt is noted once, and none that is older than the one that is noted, or
// comes after the end.
func TestAttemptsAreNotedInOrder(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		records := ledger.NewRecords(client, "", 0)
		n := &push.Notification{ID: "tried", App: "a", User: "u", Targets: []push.Target{{Platform: push.FCM, Token: "t"}}, Title: "t"}
		if err := records.Arrive(t.Context(), n.ID, n.Priority.Queue(), ledger.Facts{App: n.App, User: n.User}); err != nil {
			t.Fatal(err)
		}
		for i, c := range []struct {
			n, visit int
			noted    bool
		}{{1, 0, true}, {1, 0, true}, {1, 2, true}, {1, 1, false}, {2, 3, true}, {1, 3, false}, {3, 0, true}} {
			noted, err := records.Attempt(t.Context(), "tried", c.n, c.visit, []ledger.TargetOutcome{{Kind: "retry"}}, "")
			if err != nil || noted != c.noted {
				t.Errorf("%d: the attempt %d of visit %d: noted %t, %v", i, c.n, c.visit, noted, err)
			}
		}
		if _, err := records.Settle(t.Context(), "tried", &ledger.End{State: push.Delivered, Outcomes: []ledger.TargetOutcome{{Kind: "delivered"}}}); err != nil {
			t.Fatal(err)
		}
		if noted, err := records.Attempt(t.Context(), "tried", 4, 4, []ledger.TargetOutcome{{Kind: "retry"}}, "late"); err != nil || noted {
			t.Errorf("after the end: noted %t, %v", noted, err)
		}
		record, err := records.Lookup(t.Context(), "tried")
		if err != nil || record.Attempts != 3 || record.State != push.Delivered || record.Error != "" || record.Outcomes[0].Kind != "delivered" {
			t.Errorf("record %+v, %v", record, err)
		}
	})
}
