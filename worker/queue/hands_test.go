package queue

import (
	"testing"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// What is urgent finds a hand, and what is not is not kept from those that are free by what
// others hold.
func TestHands(t *testing.T) {
	bulk, others, critical := push.Bulk.Queue(), push.Default.Queue(), push.Critical.Queue()
	h := NewHands(100)
	fill := func(queue string) (n int) {
		for !h.full(queue) {
			h.took(queue, h.reserve(queue, 1, nil), make([]Job, 1))
			n++
		}
		return n
	}
	for _, c := range []struct {
		queue string
		want  int
	}{{bulk, 80}, {others, 15}, {critical, 5}} {
		if n := fill(c.queue); n != c.want {
			t.Errorf("of %s %d are taken, want %d", c.queue, n, c.want)
		}
	}
	for range 80 {
		h.free(bulk)
	}
	if n := fill(critical); n != 80 || !h.full(bulk) {
		t.Errorf("%d critical ones take what is free", n)
	}
	for range 50 {
		h.free(critical)
	}
	if n := fill(bulk); n != 50 || h.count() != 100 {
		t.Errorf("%d bulk ones take what is free, %d are in hand", n, h.count())
	}
	if small := NewHands(1); small.full(bulk) || small.full(others) || small.full(critical) {
		t.Error("a single hand takes nothing")
	}
}

// What a pull reserves is nobody else's until it is known what it has taken.
func TestAPullReservesHands(t *testing.T) {
	t.Parallel()
	h, queue := NewHands(10), push.Critical.Queue()
	bound := func() []store.Bound { return []store.Bound{{Route: "shop/apns", Room: 4}} }
	first := h.reserve(queue, 8, bound())
	second := h.reserve(queue, 8, bound())
	if first.hands != 8 || second.hands != 2 || first.bounds[0].Room != 4 || second.bounds[0].Room != 0 {
		t.Errorf("reserved are %+v and %+v", first, second)
	}
	if h.full(queue) {
		t.Error("what is reserved is in hand")
	}
	h.took(queue, first, []Job{{route: "shop/apns"}})
	h.took(queue, second, nil)
	if left := h.room(queue, bound()); h.count() != 1 || left[0].Room != 3 {
		t.Errorf("%d are in hand, %+v is left", h.count(), left)
	}
}
