package queue

import (
	"testing"

	"github.com/pushpace/pushpace/push"
)

// What is urgent finds a hand, and what is not is not kept from those that are free by what
// others hold.
func TestHands(t *testing.T) {
	bulk, others, critical := push.Bulk.Queue(), push.Default.Queue(), push.Critical.Queue()
	h := NewHands(100)
	fill := func(queue string) (n int) {
		for !h.full(queue) {
			h.take(queue)
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
