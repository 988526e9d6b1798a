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
	ahead  map[way]int    // jobs that are pulled for a route and not begun, or may be right now
}

// A way is where jobs for a route alone come from: those of each queue have room of their own
// there.
type way struct{ queue, route string }

// NewHands returns so many at most.
func NewHands(most int) *Hands {
	return &Hands{most: most, freed: make(chan struct{}, 1), of: map[string]int{}, ahead: map[way]int{}}
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

// A Bound says how many more jobs may be pulled for a route.
type Bound struct {
	Route string // as push.OnlyRoute tells it
	Room  int
	// InHand is about how many jobs the process has in hand that are stuck there.
	InHand int
}

// room takes off the bounds what is pulled and not begun.
func (h *Hands) room(queue string, bounds []Bound) []Bound {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.left(queue, bounds)
}

func (h *Hands) left(queue string, bounds []Bound) []Bound {
	for i, b := range bounds {
		bounds[i].Room = max(0, b.Room-h.ahead[way{queue, b.Route}])
	}
	return bounds
}

// reserve is room, and keeps what is left for a pull, so that others beside it do not take the
// same.
func (h *Hands) reserve(queue string, bounds []Bound) []Bound {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, b := range h.left(queue, bounds) {
		bounds[i].Room = min(b.Room, prefetched)
		h.come(way{queue, b.Route}, bounds[i].Room)
	}
	return bounds
}

// pulled notes what a pull has taken of what was reserved.
func (h *Hands) pulled(queue string, reserved []Bound, jobs []pulled) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range reserved {
		h.come(way{queue, b.Route}, -b.Room)
	}
	for i := range jobs {
		h.come(way{queue, jobs[i].route}, 1)
	}
}

// begun notes that work on a job that was pulled begins, or that it does not.
func (h *Hands) begun(queue, route string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.come(way{queue, route}, -1)
}

func (h *Hands) come(w way, n int) {
	if w.route == "" {
		return
	}
	if h.ahead[w] += n; h.ahead[w] == 0 {
		delete(h.ahead, w)
	}
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
