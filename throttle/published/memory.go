package published

import "sync"

// kept holds the state of each ID in memory. It removes idle IDs each time the number of IDs has
// doubled.
type kept[S any] struct {
	mu      sync.Mutex
	ids     map[string]S
	sweepAt int
	idle    func(state S, now int64) bool // reports whether the state equals a new one
}

func newKept[S any](idle func(S, int64) bool) *kept[S] {
	return &kept[S]{ids: map[string]S{}, idle: idle}
}

// change updates the ID's state; a new ID has the zero value.
func (k *kept[S]) change(id string, now int64, change func(*S)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	state := k.ids[id]
	change(&state)
	if k.idle(state, now) {
		delete(k.ids, id)
		return
	}
	k.ids[id] = state
	if len(k.ids) < k.sweepAt {
		return
	}
	for id, state := range k.ids {
		if k.idle(state, now) {
			delete(k.ids, id)
		}
	}
	k.sweepAt = 2 * len(k.ids)
}

// forget removes the ID.
func (k *kept[S]) forget(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.ids, id)
}
