package api

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// bodyBudget bounds the bodies that are in memory at once, in bytes, unless
	// http.max_body is more. What a body is parsed into, and what is written of it,
	// takes several times as much.
	bodyBudget = 32 << 20
	// budgetWait is how long a request waits for a part of it.
	budgetWait = time.Second
)

// A budget bounds the bytes of the bodies in flight.
type budget struct {
	bytes *semaphore.Weighted
	most  int64 // of one body
	wait  time.Duration
}

func newBudget(most int64, timeout time.Duration) budget {
	return budget{semaphore.NewWeighted(max(bodyBudget, most)), most, min(budgetWait, timeout)}
}

// take waits a moment until there is room for the request's body, and answers how
// to give it back.
func (b *budget) take(r *http.Request) (giveBack func(), err error) {
	size := r.ContentLength
	if size < 0 { // not known
		size = b.most
	}
	ctx, cancel := context.WithTimeout(r.Context(), b.wait)
	defer cancel()
	if b.bytes.Acquire(ctx, size) != nil {
		return nil, errNoRoom
	}
	return func() { b.bytes.Release(size) }, nil
}

var errNoRoom = &problem{Status: http.StatusServiceUnavailable, Detail: "Too many bytes of requests are being read.", retryAfter: pause}
