package api

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// bodyBudget bounds the bodies in memory, in bytes, unless http.max_body is larger. Their
	// parsed forms and answers take several times as much.
	bodyBudget = 32 << 20
	// budgetWait is how long a request waits for room in the budget.
	budgetWait = time.Second
	// shares is the number of parts of the budget. An API token gets at most one part, so that its
	// many or slow bodies do not stop other callers.
	shares = 2
)

// A budget bounds bodies for all tokens together and for each token: the number of bodies that
// arrive at once, and the bytes of a body from their arrival until its answer.
type budget struct {
	all   room
	share room // as large as each token's
	wait  time.Duration

	mu     sync.Mutex
	tokens map[string]*room // by name
}

// A room is a capacity for bodies and for their bytes.
type room struct {
	most          [2]int64
	bodies, bytes *semaphore.Weighted
}

func newRoom(bodies, bytes int64) room {
	return room{[2]int64{bodies, bytes}, semaphore.NewWeighted(bodies), semaphore.NewWeighted(bytes)}
}

func newBudget(bodies int, most int64, timeout time.Duration) *budget {
	bytes := max(bodyBudget, most)
	return &budget{
		all: newRoom(int64(bodies), bytes), share: newRoom(max(1, int64(bodies)/shares), max(most, bytes/shares)),
		wait: min(budgetWait, timeout), tokens: map[string]*room{},
	}
}

// of returns the room of a configured token, which stays in memory.
func (b *budget) of(token string) *room {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.tokens[token]
	if own == nil {
		made := newRoom(b.share.most[0], b.share.most[1])
		own = &made
		b.tokens[token] = own
	}
	return own
}

// A charge is a body's part of the budget. Call arrived once, and then giveBack.
type charge struct {
	*budget
	own   *room
	bytes int64
}

// begin takes the room for one body before any of its bytes arrive.
func (b *budget) begin(ctx context.Context, token string) (*charge, error) {
	own := b.of(token)
	if err := b.take(ctx, 1, own.bodies, b.all.bodies); err != nil {
		return nil, err
	}
	return &charge{budget: b, own: own}, nil
}

// take takes n from both semaphores, and waits up to b.wait for each.
func (b *budget) take(ctx context.Context, n int64, own, all *semaphore.Weighted) error {
	if own.TryAcquire(n) {
		if all.TryAcquire(n) {
			return nil
		}
		own.Release(n)
	}
	ctx, cancel := context.WithTimeout(ctx, b.wait)
	defer cancel()
	if own.Acquire(ctx, n) != nil {
		return errNoRoom
	}
	if all.Acquire(ctx, n) != nil {
		own.Release(n)
		return errNoRoom
	}
	return nil
}

// arrived gives back the permit to read a body. Call it when no more of the body is read.
func (c *charge) arrived() {
	c.own.bodies.Release(1)
	c.all.bodies.Release(1)
}

// giveBack releases the bytes: the body is needed no longer.
func (c *charge) giveBack() {
	c.own.bytes.Release(c.bytes)
	c.all.bytes.Release(c.bytes)
}

// reader charges the bytes that it reads.
func (c *charge) reader(ctx context.Context, r io.Reader) io.Reader { return &charged{c, ctx, r} }

type charged struct {
	*charge
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (c *charged) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if n > 0 {
		if err := c.take(c.ctx, int64(n), c.own.bytes, c.all.bytes); err != nil {
			return 0, err
		}
		c.bytes += int64(n)
	}
	return n, err
}

var (
	errNoRoom      = &problem{Status: http.StatusServiceUnavailable, Detail: "Too many requests, or bytes of them, are being read.", RetryAfter: comeAgain}
	errTooMuchWork = &problem{Status: http.StatusServiceUnavailable, Detail: "Too many requests are being answered.", RetryAfter: comeAgain}
)
