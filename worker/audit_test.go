package worker_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/push"
)

// While producers, cancels and a worker run, each audit is balanced. At rest it is exact.
func TestAuditIsBalancedDuringChanges(t *testing.T) {
	overRedis(t, func(t *testing.T, client redis.UniversalClient) {
		r := newRig(t, client, unlimited)
		r.start()
		const each, looks = 60, 15
		var all sync.WaitGroup
		for p := range 4 {
			all.Go(func() {
				for i := range each {
					n := to(fmt.Sprint(p, "-", i))
					if p == 3 {
						n.NotBefore = time.Now().Add(time.Hour)
					}
					if _, err := r.producer.Enqueue(t.Context(), n); err != nil {
						t.Error(err)
					}
					if p == 3 {
						if err := r.cancel(push.Ref{ID: n.ID}); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		for range looks {
			audit, err := r.inspector().Audit(t.Context())
			must(t, err)
			if audit.Balance() != inspect.Balanced {
				t.Errorf("in motion: %+v", audit)
			}
		}
		all.Wait()
		r.settled(4 * each)
		wait(t, func() bool {
			audit, err := r.inspector().Audit(t.Context())
			must(t, err)
			return audit.Difference == 0 && audit.InFlight == 0 && audit.Waiting == 0
		})
		// a lost job shows in the audit
		r.enqueue(to("last"))
		r.settled(4*each + 1)
		lost := to("lost")
		lost.NotBefore = time.Now().Add(time.Hour)
		r.enqueue(lost)
		must(t, client.ZRem(t.Context(), queueKey(client, push.Default.Queue(), "scheduled"), "lost").Err())
		wait(t, func() bool {
			audit, err := r.inspector().Audit(t.Context())
			must(t, err)
			return audit.Difference == 1 && audit.Balance() == inspect.Unbalanced
		})
	})
}
