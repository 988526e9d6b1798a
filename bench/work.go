package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker"
)

// enqueuers is the number of goroutines that enqueue.
const enqueuers = 64

// notification returns the i-th notification of a round. The users take turns.
func notification(i, users int) *push.Notification {
	user := i % users
	return &push.Notification{
		ID: id(int64(i)), App: app, User: "user-" + strconv.Itoa(user), Category: "orders",
		Targets: []push.Target{{Platform: push.APNs, Token: deviceToken(user)}},
		Title:   "Your order is on its way",
		Body:    "Order " + strconv.Itoa(i) + " has left the warehouse and arrives tomorrow between 10 and 12.",
		Data:    map[string]string{"order": strconv.Itoa(i)},
	}
}

func deviceToken(user int) string {
	return strings.Repeat("a1", 28) + fmt.Sprintf("%08x", user)
}

// each calls f for 0 to n-1, from the given number of goroutines, until a call fails.
func each(ctx context.Context, goroutines, n int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var next atomic.Int64
	for range goroutines {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := f(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// A tally counts a worker's results until n notifications have ended. It is a worker's Observer.
type tally struct {
	worker.NopObserver
	n                int64
	checks           atomic.Int64
	ended, delivered atomic.Int64
	done             chan struct{}
}

func newTally(n int) *tally { return &tally{n: int64(n), done: make(chan struct{})} }

func (t *tally) end(delivered bool) {
	if delivered {
		t.delivered.Add(1)
	}
	if t.ended.Add(1) == t.n {
		close(t.done)
	}
}

// Checked implements worker.Observer.
func (t *tally) Checked(time.Duration) { t.checks.Add(1) }

// Ended implements worker.Observer.
func (t *tally) Ended(s push.State) { t.end(s == push.Delivered) }

// wait waits until n notifications have ended.
func (t *tally) wait(ctx context.Context) error {
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("only %d of %d notifications have ended: %w", t.ended.Load(), t.n, context.Cause(ctx))
	}
}
