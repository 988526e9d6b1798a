package queue

import (
	"maps"
	"sync"
	"time"
)

// recent is what this process knows of jobs that it has in hand, by their IDs. The
// zero value is ready to use, by any goroutine.
type recent[V any] struct {
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
	if now.Sub(r.pruned) > forgetAfter {
		r.pruned = now
		maps.DeleteFunc(r.known, func(_ string, e entry[V]) bool { return now.Sub(e.at) > forgetAfter })
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
