package api

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// freshFor is the time after which a count is outdated.
const freshFor = time.Second

// A backlog compares the number of waiting notifications and dead letters with a bound. It
// counts about once a second while requests come, in the background. Before it reports that
// the bound is reached it counts again.
type backlog struct {
	most  int64 // zero for no bound
	count func(context.Context) (int64, error)

	kept      atomic.Int64
	at        atomic.Int64 // the time of the count, in ns
	counting  sync.Mutex
	measuring sync.WaitGroup
}

// full reports whether the bound is reached.
func (b *backlog) full(ctx context.Context) bool {
	if b.most == 0 {
		return false
	}
	if b.fresh() {
		return b.kept.Load() >= b.most
	}
	if b.kept.Load() < b.most {
		if b.counting.TryLock() {
			b.measuring.Go(func() {
				defer b.counting.Unlock()
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), freshFor)
				defer cancel()
				b.measure(ctx)
			})
		}
		return false
	}
	b.counting.Lock()
	defer b.counting.Unlock()
	if !b.fresh() {
		b.measure(ctx)
	}
	return b.kept.Load() >= b.most
}

func (b *backlog) fresh() bool { return time.Now().UnixNano()-b.at.Load() < int64(freshFor) }

// measure counts. If it fails, the old count stays: then nothing can be enqueued either.
func (b *backlog) measure(ctx context.Context) {
	n, err := b.count(ctx)
	if err == nil {
		b.kept.Store(n)
	}
	b.at.Store(time.Now().UnixNano())
}

// took adds n accepted notifications.
func (b *backlog) took(n int) { b.kept.Add(int64(n)) }

var errFull = &problem{Status: http.StatusServiceUnavailable, Detail: "Too many notifications wait or are dead letters.", RetryAfter: comeAgain}
