package queue

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/pushpace/pushpace/push"
)

// Hands are how many jobs a process has in hand, of all its shards together. Bulk jobs take
// no more than four fifths of them, and with default ones no more than 95 %: the rest is for
// critical ones.
type Hands struct {
	most  int
	freed chan struct{} // holds that there are fewer

	mu       sync.Mutex
	of       map[string]int // by queue
	reserved map[string]int // by queue: for pulls under way
}

// NewHands returns so many at most.
func NewHands(most int) *Hands {
	return &Hands{most: most, freed: make(chan struct{}, 1), of: map[string]int{}, reserved: map[string]int{}}
}

// free has one fewer of the queue in hand.
func (h *Hands) free(queue string) {
	h.mu.Lock()
	h.of[queue]--
	h.mu.Unlock()
	select {
	case h.freed <- struct{}{}:
	default:
	}
}

// full reports whether no job of that queue may be taken in hand.
func (h *Hands) full(queue string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return left(h.most, h.of, queue) <= 0
}

// left is how many more of that queue may be taken in hand, of so many at most, beside these.
func left(most int, of map[string]int, queue string) int {
	critical, others, bulk := of[push.Critical.Queue()], of[push.Default.Queue()], of[push.Bulk.Queue()]
	free := most - critical - others - bulk
	switch queue {
	case push.Bulk.Queue():
		return min(free, most-most/5-bulk)
	case push.Default.Queue():
		return min(free, most-most/20-bulk-others)
	}
	return free
}

// reserve keeps hands for a pull of so many jobs at most, so that others beside it do not take the
// same, and returns how many.
func (h *Hands) reserve(queue string, most int) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := maps.Clone(h.of)
	for q, n := range h.reserved {
		taken[q] += n
	}
	n = max(0, min(most, left(h.most, taken, queue)))
	h.reserved[queue] += n
	return n
}

// took gives back what was reserved for a pull, which has taken so many jobs.
func (h *Hands) took(queue string, reserved, jobs int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reserved[queue] -= reserved
	h.of[queue] += jobs
}

// wait waits until there may be fewer in hand. Another shard's pull may take the one that is
// announced.
func (h *Hands) wait(ctx context.Context) {
	timer := time.NewTimer(roomPause)
	defer timer.Stop()
	select {
	case <-h.freed:
	case <-timer.C:
	case <-ctx.Done():
	}
}
