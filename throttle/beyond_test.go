package throttle

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// A third of the notifications that wait hold slots. All go in the order of acceptance,
// though they ask in another order.
func TestTheOrderHoldsBeyondTheSlots(t *testing.T) {
	t.Parallel()
	l := newClockedLine(t)
	goInOrder(t, scripted{l.limiter}, l.clock.now, l.advance)
}

// scripted is the limiter without claims, which would read another clock.
type scripted struct{ *Redis }

// A comer is one that comes at an instant.
type comer struct {
	at     time.Time
	number int
}

type comers []comer

func (c comers) Len() int { return len(c) }
func (c comers) Less(i, j int) bool {
	return c[i].at.Before(c[j].at) || c[i].at.Equal(c[j].at) && c[i].number < c[j].number
}
func (c comers) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *comers) Push(x any)   { *c = append(*c, x.(comer)) }
func (c *comers) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

func goInOrder(t *testing.T, l Limiter, now func() time.Time, advance func(time.Duration)) {
	const most = longLine / 4
	const n = 3 * most
	rng := rand.New(rand.NewPCG(1, 3))
	numbers := map[string]int{}
	asks := make([]int, n)
	next := make([]time.Time, n) // when each comes
	queue := new(comers)
	come := func(number int, at time.Time) {
		next[number] = at
		heap.Push(queue, comer{at, number})
	}
	for i := range n { // as a few processes ask
		numbers[fmt.Sprintf("n%04d", i)] = i
		come(i, start.Add(time.Duration(i+rng.IntN(12))*time.Millisecond))
	}
	last, full := -1, 0
	for queue.Len() > 0 {
		c := heap.Pop(queue).(comer)
		if !next[c.number].Equal(c.at) {
			continue // it was woken for another slot
		}
		advance(max(0, c.at.Sub(now())))
		r := Request{User: "u", ID: fmt.Sprintf("n%04d", c.number), Horizon: 1000 * time.Hour, MaxBooked: most, Accepted: start.Add(time.Duration(c.number) * time.Millisecond),
			Scopes: []Scope{{General, Policy{MinGap: 300 * time.Millisecond, Rates: []Rate{{10, 5 * time.Second}}}}}}
		d, err := acquire(t, l, r)
		if err != nil {
			t.Fatal(err)
		}
		asks[c.number]++
		if d.Full {
			full++
		}
		if d.Status == Deferred {
			come(c.number, d.At)
		} else {
			next[c.number] = time.Time{}
			if asks[c.number] > 1 { // the first goes at once, before it knows of others
				if c.number < last {
					t.Fatalf("n%04d goes after n%04d, and was accepted before", c.number, last)
				}
				last = c.number
			}
		}
		for _, b := range d.Moved {
			if i := numbers[b.ID]; b.Slot.Before(next[i]) {
				come(i, b.Slot)
			}
		}
	}
	total := 0
	for _, k := range asks {
		total += k
	}
	t.Logf("%d were put off without a slot; %.2f calls each", full, float64(total)/n)
	if full < n-most-most/10 || total > 3*n {
		t.Errorf("%d were put off without a slot, %d calls", full, total)
	}
}

func acquire(t *testing.T, l Limiter, r Request) (Decision, error) {
	if s, ok := l.(scripted); ok {
		return s.wait(t.Context(), &r, s.user(&r), denial{})
	}
	return l.Acquire(t.Context(), r)
}
