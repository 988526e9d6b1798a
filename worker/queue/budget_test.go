package queue

import (
	"testing"

	"github.com/pushpace/pushpace/push"
)

// Urgent jobs have reserved capacity. Other jobs use all other free capacity.
func TestBudgetReservesCapacityForUrgentJobs(t *testing.T) {
	bulk, others, critical := push.Bulk.Queue(), push.Default.Queue(), push.Critical.Queue()
	h := NewBudget(100)
	fill := func(queue string) (n int) {
		for !h.full(queue) {
			h.commit(queue, h.reserve(queue, 1), 1)
			n++
		}
		return n
	}
	for _, c := range []struct {
		queue string
		want  int
	}{{bulk, 80}, {others, 15}, {critical, 5}} {
		if n := fill(c.queue); n != c.want {
			t.Errorf("%d jobs of %s are claimed, want %d", n, c.queue, c.want)
		}
	}
	for range 80 {
		h.release(bulk)
	}
	if n := fill(critical); n != 80 || !h.full(bulk) {
		t.Errorf("%d critical jobs are claimed, want 80", n)
	}
	for range 50 {
		h.release(critical)
	}
	if n := fill(bulk); n != 50 {
		t.Errorf("%d bulk jobs are claimed, want 50", n)
	}
	if small := NewBudget(1); small.full(bulk) || small.full(others) || small.full(critical) {
		t.Error("a budget of one job is full")
	}
}

// Other pulls cannot use the capacity reserved by a running pull.
func TestPullReservesCapacity(t *testing.T) {
	t.Parallel()
	h, queue := NewBudget(10), push.Critical.Queue()
	first, second := h.reserve(queue, 8), h.reserve(queue, 8)
	if first != 8 || second != 2 || h.full(queue) {
		t.Errorf("reserved are %d and %d", first, second)
	}
	h.commit(queue, first, 1)
	h.commit(queue, second, 0)
	if third := h.reserve(queue, 12); third != 9 {
		t.Errorf("%d are left", third)
	}
}
