package worker

import (
	"context"
	"slices"
	"sync"
	"time"
)

// asks have those of a user's category that this process has in hand ask the
// throttle for the first time one after another, the one that was accepted first
// before the others: each that asks ahead of its turn learns only at its slot that
// the slot is another's, and asks once more. The zero value is ready to use.
type asks struct {
	mu   sync.Mutex
	open map[asker][]*ask // those behind the one that asks
}

type asker struct{ app, user, category string }

type ask struct {
	accepted time.Time
	turn     chan struct{}
}

// patience is how long a turn is waited for: an answer that takes longer holds
// nobody up for the sake of a check.
const patience = 100 * time.Millisecond

// enter waits for the delivery's turn. It reports whether that has come, so that the
// caller has to leave.
func (a *asks) enter(ctx context.Context, d *delivery) bool {
	of := asker{d.App, d.User, d.Category}
	a.mu.Lock()
	behind, busy := a.open[of]
	if !busy {
		if a.open == nil {
			a.open = map[asker][]*ask{}
		}
		a.open[of] = nil
		a.mu.Unlock()
		return true
	}
	one := &ask{d.due(), make(chan struct{})}
	a.open[of] = append(behind, one)
	a.mu.Unlock()
	enough := time.NewTimer(patience)
	defer enough.Stop()
	select {
	case <-one.turn:
		return true
	case <-enough.C:
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.Index(a.open[of], one)
	if i >= 0 {
		a.open[of] = slices.Delete(a.open[of], i, i+1)
	}
	return i < 0 // it has just come
}

// leave ends the turn.
func (a *asks) leave(d *delivery) {
	of := asker{d.App, d.User, d.Category}
	a.mu.Lock()
	defer a.mu.Unlock()
	behind := a.open[of]
	if len(behind) == 0 {
		delete(a.open, of)
		return
	}
	next := slices.MinFunc(behind, func(a, b *ask) int { return a.accepted.Compare(b.accepted) })
	close(next.turn)
	a.open[of] = slices.DeleteFunc(behind, func(one *ask) bool { return one == next })
}
