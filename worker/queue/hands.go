package queue

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/pushpace/pushpace/push"
)

// Hands bounds the claimed jobs of a process, over all its shards. Bulk jobs take at most 80 % of
// it, and bulk and default jobs together 95 %. The rest is for critical jobs.
type Hands struct {
	most  int
	freed chan struct{} // has an element after a job was released

	mu       sync.Mutex
	of       map[string]int // by queue: claimed jobs
	reserved map[string]int // by queue: reserved by running pulls
}

// NewHands returns a bound of most jobs.
func NewHands(most int) *Hands {
	return &Hands{most: most, freed: make(chan struct{}, 1), of: map[string]int{}, reserved: map[string]int{}}
}

// free releases a job of the queue.
func (h *Hands) free(queue string) {
	h.mu.Lock()
	h.of[queue]--
	h.mu.Unlock()
	select {
	case h.freed <- struct{}{}:
	default:
	}
}

// full reports whether there is no room for a job of that queue.
func (h *Hands) full(queue string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return left(h.most, h.of, queue) <= 0
}

// left returns how many more jobs of that queue may be claimed, if most is the bound and of the
// claimed jobs by queue.
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

// reserve reserves room for up to most jobs, so that concurrent pulls do not use it too. It
// returns how many.
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

// took ends a pull's reservation, and counts the jobs that it has claimed.
func (h *Hands) took(queue string, reserved, jobs int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reserved[queue] -= reserved
	h.of[queue] += jobs
}

// wait waits for a release, at most roomPause: another shard's pull may take the released place.
func (h *Hands) wait(ctx context.Context) {
	timer := time.NewTimer(roomPause)
	defer timer.Stop()
	select {
	case <-h.freed:
	case <-timer.C:
	case <-ctx.Done():
	}
}
