package throttle

import "sync"

// A turn is taken by one at a time. Those who find it taken learn when it is
// given back. The zero value is free.
type turn struct {
	mu    sync.Mutex
	taken bool
	over  chan struct{} // made by the first who waits
}

// take answers nil when the turn is the caller's now, who has to give it back.
// Otherwise what it answers is closed when the turn is over.
func (t *turn) take() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.taken {
		t.taken = true
		return nil
	}
	if t.over == nil {
		t.over = make(chan struct{})
	}
	return t.over
}

// give ends the turn.
func (t *turn) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = false
	if t.over != nil {
		close(t.over)
		t.over = nil
	}
}
