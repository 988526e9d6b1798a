package queue

import (
	"context"
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

	mu     sync.Mutex
	inHand int
	of     map[string]int // by queue
}

// NewHands returns so many at most.
func NewHands(most int) *Hands {
	return &Hands{most: most, freed: make(chan struct{}, 1), of: map[string]int{}}
}

// take has one more of the queue in hand.
func (h *Hands) take(queue string) { h.add(queue, 1) }

// free has one fewer in hand.
func (h *Hands) free(queue string) {
	h.add(queue, -1)
	select {
	case h.freed <- struct{}{}:
	default:
	}
}

func (h *Hands) add(queue string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inHand += n
	h.of[queue] += n
}

// count is how many are in hand.
func (h *Hands) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.inHand
}

// full reports whether no job of that queue may be taken in hand.
func (h *Hands) full(queue string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	bulk, others := h.of[push.Bulk.Queue()], h.of[push.Default.Queue()]
	switch {
	case h.inHand >= h.most:
		return true
	case queue == push.Bulk.Queue():
		return bulk >= h.most-h.most/5
	case queue == push.Default.Queue():
		return bulk+others >= h.most-h.most/20
	}
	return false
}

// handsFull is for how long a queue is not asked at most whose hands were found full.
const handsFull = 5 * time.Millisecond

// wait waits until there may be fewer in hand.
func (h *Hands) wait(ctx context.Context) {
	timer := time.NewTimer(handsFull)
	defer timer.Stop()
	select {
	case <-h.freed:
	case <-timer.C:
	case <-ctx.Done():
	}
}
