package queue

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/pushpace/pushpace/push"
)

// A Budget bounds the claimed jobs of a process, over all its shards. Bulk jobs take at most 80 % of
// it, and bulk and default jobs together 95 %. The rest is for critical jobs.
type Budget struct {
	most  int
	freed chan struct{} // has an element after a job was released

	mu       sync.Mutex
	of       map[string]int // by queue: claimed jobs
	reserved map[string]int // by queue: reserved by running pulls
}

// NewBudget returns a budget; most is the maximum of claimed jobs.
func NewBudget(most int) *Budget {
	return &Budget{most: most, freed: make(chan struct{}, 1), of: map[string]int{}, reserved: map[string]int{}}
}

// release subtracts a job of the queue from the claimed jobs.
func (b *Budget) release(queue string) {
	b.mu.Lock()
	b.of[queue]--
	b.mu.Unlock()
	select {
	case b.freed <- struct{}{}:
	default:
	}
}

// full reports whether there is no room for a job of that queue.
func (b *Budget) full(queue string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return left(b.most, b.of, queue) <= 0
}

// left returns how many more jobs of the queue may be claimed. limit is the maximum, and claimed
// counts the claimed jobs by queue.
func left(limit int, claimed map[string]int, queue string) int {
	critical, others, bulk := claimed[push.Critical.Queue()], claimed[push.Default.Queue()], claimed[push.Bulk.Queue()]
	free := limit - critical - others - bulk
	switch queue {
	case push.Bulk.Queue():
		return min(free, limit-limit/5-bulk)
	case push.Default.Queue():
		return min(free, limit-limit/20-bulk-others)
	}
	return free
}

// reserve reserves room for up to limit jobs, so that concurrent pulls do not use it too. n is the
// number of jobs with room.
func (b *Budget) reserve(queue string, limit int) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := maps.Clone(b.of)
	for q, n := range b.reserved {
		taken[q] += n
	}
	n = max(0, min(limit, left(b.most, taken, queue)))
	b.reserved[queue] += n
	return n
}

// commit ends a pull's reservation, and counts the jobs that it has claimed.
func (b *Budget) commit(queue string, reserved, jobs int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reserved[queue] -= reserved
	b.of[queue] += jobs
}

// wait waits for a release, at most capacityRecheck: another shard's pull may use the released room.
func (b *Budget) wait(ctx context.Context) {
	timer := time.NewTimer(capacityRecheck)
	defer timer.Stop()
	select {
	case <-b.freed:
	case <-timer.C:
	case <-ctx.Done():
	}
}
