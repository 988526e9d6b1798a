package queue

import (
	"maps"
	"sync"
	"time"
)

// recent is what this process knows of jobs that it has in hand, by their IDs. The
// zero value is ready to use, by any goroutine.
type recent[V any] struct {
	// drop is told what is forgotten, or known no longer since other things are; may be nil.
	drop func(V)

	mu     sync.Mutex
	known  map[string]entry[V]
	pruned time.Time
}

type entry[V any] struct {
	value V
	at    time.Time
}

// forgetAfter is when a job is forgotten that was cut off or taken over, and of
// which asynq never says that it is done, or never brings it to the handler.
const forgetAfter = 5 * time.Minute

// note notes what is known of a job from now on.
func (r *recent[V]) note(id string, value V) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = make(map[string]entry[V])
	}
	dropped := func(e entry[V]) {
		if r.drop != nil {
			r.drop(e.value)
		}
	}
	if now.Sub(r.pruned) > forgetAfter {
		r.pruned = now
		maps.DeleteFunc(r.known, func(_ string, e entry[V]) bool {
			old := now.Sub(e.at) > forgetAfter
			if old {
				dropped(e)
			}
			return old
		})
	}
	if before, ok := r.known[id]; ok {
		dropped(before)
	}
	r.known[id] = entry[V]{value, now}
}

// of returns what is known of a job, and whether anything is.
func (r *recent[V]) of(id string) (value V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.known[id]
	return e.value, ok
}

// take is of, and forgets it.
func (r *recent[V]) take(id string) (value V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.known[id]
	if ok {
		delete(r.known, id)
	}
	return e.value, ok
}
