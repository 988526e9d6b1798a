package queue

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/pushpace/pushpace/internal/store"
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
	ahead    map[way]int    // jobs that are pulled for a route and not announced, or may be right now
}

// A way is where jobs for a route alone come from: those of each queue have room of their own
// there.
type way struct{ queue, route string }

// NewHands returns so many at most.
func NewHands(most int) *Hands {
	return &Hands{most: most, freed: make(chan struct{}, 1), of: map[string]int{}, reserved: map[string]int{}, ahead: map[way]int{}}
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

// count is how many are in hand.
func (h *Hands) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, some := range h.of {
		n += some
	}
	return n
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

// A room is what a pull may take.
type room struct {
	hands  int
	bounds []store.Bound
}

// room takes off the bounds what is pulled and not announced.
func (h *Hands) room(queue string, bounds []store.Bound) []store.Bound {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leftOf(queue, bounds)
}

func (h *Hands) leftOf(queue string, bounds []store.Bound) []store.Bound {
	for i, b := range bounds {
		bounds[i].Room = max(0, b.Room-h.ahead[way{queue, b.Route}])
	}
	return bounds
}

// reserve keeps room for a pull of so many jobs at most, so that others beside it do not take
// the same.
func (h *Hands) reserve(queue string, most int, bounds []store.Bound) room {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := maps.Clone(h.of)
	for q, n := range h.reserved {
		taken[q] += n
	}
	r := room{max(0, min(most, left(h.most, taken, queue))), h.leftOf(queue, bounds)}
	h.reserved[queue] += r.hands
	for i, b := range r.bounds {
		r.bounds[i].Room = min(b.Room, r.hands)
		h.come(way{queue, b.Route}, r.bounds[i].Room)
	}
	return r
}

// took gives back what a pull has not taken of what was reserved.
func (h *Hands) took(queue string, r room, jobs []Job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reserved[queue] -= r.hands
	h.of[queue] += len(jobs)
	for _, b := range r.bounds {
		h.come(way{queue, b.Route}, -b.Room)
	}
	for i := range jobs {
		h.come(way{queue, jobs[i].route}, 1)
	}
}

// announced notes that a job's route knows of it, or that the job does not come there.
func (h *Hands) announced(queue, route string) {
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

// handsFull is for how long is waited at most for a hand.
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
