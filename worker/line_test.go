package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/queue"
)

// A lineRig has lines with a recorded ask. Each call answers as many turns as it receives from answers.
type lineRig struct {
	*lines
	began   time.Time
	mu      sync.Mutex
	asked   [][]int // the numbers of the deliveries that were asked about together
	answers chan int
	err     error
	defers  time.Duration // the next answer defers by this long
}

func newLineRig() *lineRig {
	r := &lineRig{began: time.Now(), answers: make(chan int, 100)}
	r.lines = newLines(turnTimeout, func(ctx context.Context, first *turn, more func() []*turn) []answer {
		together := append([]*turn{first}, more()...)
		var numbers []int
		for _, t := range together {
			numbers = append(numbers, int(t.accepted.Sub(r.began)/time.Microsecond))
		}
		r.mu.Lock()
		r.asked = append(r.asked, numbers)
		r.mu.Unlock()
		n := min(<-r.answers, len(together))
		if err := ctx.Err(); err != nil {
			return slices.Repeat([]answer{{err: err}}, len(together))
		}
		decision := throttle.Decision{Status: throttle.Granted}
		if left := r.defers; left > 0 {
			decision, r.defers = throttle.Decision{Status: throttle.Deferred, Left: left}, 0
		}
		return slices.Repeat([]answer{{Decision: decision, err: r.err}}, n)
	})
	return r
}

// taken returns a delivery of the user that was accepted as the n-th and has its turn.
func (r *lineRig) taken(user string, n int) *delivery {
	d := &delivery{Notification: &push.Notification{ID: fmt.Sprint(n), User: user}, accepted: r.began.Add(time.Duration(n) * time.Microsecond)}
	r.enter(d)
	return d
}

func (r *lineRig) decideAll(ctx context.Context, all ...*delivery) {
	for _, d := range all {
		go r.askInTurn(ctx, d)
		synctest.Wait()
	}
}

func (r *lineRig) check(t *testing.T, want ...[]int) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.EqualFunc(r.asked, want, slices.Equal) {
		t.Errorf("asked about %v, want %v", r.asked, want)
	}
	if len(r.open) > 0 {
		t.Errorf("left %v", r.open)
	}
}

// A user's jobs are decided in the order of acceptance, whichever is ready first. Jobs that wait share a
// call, and jobs of other users do not wait for them.
func TestLineDecidesInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newLineRig()
		first, third, second, fourth := r.taken("u", 1), r.taken("u", 3), r.taken("u", 2), r.taken("u", 4)
		other := r.taken("other", 9)
		r.decideAll(t.Context(), third, fourth, second, other)
		r.answers <- 1 // for other
		synctest.Wait()
		r.decideAll(t.Context(), first)
		for range 2 {
			r.answers <- queue.MaxPull
		}
		r.check(t, []int{9}, []int{1, 2, 3, 4})
	})
}

// Each category of a user has a line of its own.
func TestCategoriesHaveSeparateLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newLineRig()
		var all []*delivery
		for n, category := range []string{"news", "chat", "news", "news", "chat", "chat", "news"} {
			d := &delivery{Notification: &push.Notification{ID: fmt.Sprint(n), User: "u", Category: category}, accepted: r.began.Add(time.Duration(n) * time.Microsecond)}
			r.enter(d)
			all = append(all, d)
		}
		r.decideAll(t.Context(), all...)
		for range 4 {
			r.answers <- queue.MaxPull
			synctest.Wait()
		}
		r.check(t, []int{0}, []int{1}, []int{2, 3, 6}, []int{4, 5})
	})
}

// A job that ends without asking does not delay the jobs behind it. A job that is not ready delays them
// for at most turnTimeout.
func TestLinePassesStuckJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newLineRig()
		ended, stuck, third := r.taken("u", 1), r.taken("u", 2), r.taken("u", 3)
		r.decideAll(t.Context(), third)
		r.leave(ended)
		synctest.Wait()
		r.mu.Lock()
		if len(r.asked) > 0 {
			t.Errorf("asked about %v while one is ahead", r.asked)
		}
		r.mu.Unlock()
		r.answers <- 1
		time.Sleep(turnTimeout)
		synctest.Wait()
		r.decideAll(t.Context(), stuck)
		r.answers <- 1
		r.check(t, []int{3}, []int{2})
	})
}

// While a job waits in its visit for a near slot, later jobs of its line do not pass. If its slot is far,
// they do.
func TestNearSlotKeepsTurn(t *testing.T) {
	t.Parallel()
	for slot, want := range map[time.Duration][][]int{departureTimeout: {{1}, {1, 2}, {2}}, departureTimeout + 1: {{1}, {2}, {1}}} {
		synctest.Test(t, func(t *testing.T) {
			r := newLineRig()
			first, second := r.taken("u", 1), r.taken("u", 2)
			r.defers = slot
			for range 3 {
				r.answers <- 1
			}
			r.decideAll(t.Context(), first)
			r.decideAll(t.Context(), second)
			r.decideAll(t.Context(), first)
			r.check(t, want...)
		})
	}
}

// If the asking job is cancelled, the other jobs ask again. An error of the limiter goes to all jobs of
// the call.
func TestLineAsksAgainAfterCancelledCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newLineRig()
		ctx, cancel := context.WithCancel(t.Context())
		r.decideAll(t.Context(), r.taken("u", 1))
		r.decideAll(ctx, r.taken("u", 2))
		r.decideAll(t.Context(), r.taken("u", 3), r.taken("u", 4))
		r.answers <- 1
		synctest.Wait()
		cancel()
		r.answers <- 3
		synctest.Wait()
		r.err = errors.New("the store is away")
		r.answers <- 2
		r.check(t, []int{1}, []int{2, 3, 4}, []int{3, 4})
	})
}

// If ask panics, all turns of the call get an error, and the line goes on.
func TestLineSurvivesPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		l := newLines(turnTimeout, func(_ context.Context, _ *turn, more func() []*turn) []answer {
			more()
			if calls++; calls == 1 {
				panic("no answer")
			}
			return []answer{{}}
		})
		d := func(id string) *delivery { return &delivery{Notification: &push.Notification{ID: id, User: "u"}} }
		first, second := d("1"), d("2")
		l.enter(first)
		l.enter(second)
		told := make(chan error, 1)
		go func() { told <- l.askInTurn(t.Context(), second).err }()
		synctest.Wait()
		func() {
			defer func() { _ = recover() }()
			l.askInTurn(t.Context(), first)
			t.Error("decide hides the panic")
		}()
		if err := <-told; !errors.Is(err, errNotAsked) {
			t.Errorf("the other one gets %v", err)
		}
		if got := l.askInTurn(t.Context(), d("3")); got.err != nil {
			t.Error(got.err)
		}
	})
}
