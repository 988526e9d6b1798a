package queue

import (
	"maps"
	"sync"
	"time"
)

// arrivals are the jobs on their way to the handler of which it has to know what
// asynq keeps to itself: that they are not there for the first time, or were put
// on the queue by somebody else. The zero value is ready to use.
type arrivals struct {
	mu     sync.Mutex
	known  map[string]arrival // by ID
	pruned time.Time
}

// An arrival is one that asynq may never bring to the handler.
type arrival struct {
	back    time.Time // when it went back to the queue; zero at the first arrival
	foreign bool      // no Producer of ours has put it there
	at      time.Time
}

// note notes a job that is handed out.
func (a *arrivals) note(job *pulled) {
	if job.back.IsZero() && !job.foreign {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil {
		a.known = make(map[string]arrival)
	}
	if job.at.Sub(a.pruned) > forgetAfter {
		a.pruned = job.at
		maps.DeleteFunc(a.known, func(_ string, seen arrival) bool { return job.at.Sub(seen.at) > forgetAfter })
	}
	a.known[job.id] = arrival{job.back, job.foreign, job.at}
}

// take returns what is known of the arrival; the zero value for a first one of a
// job of ours.
func (a *arrivals) take(id string) arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	seen, ok := a.known[id]
	if ok {
		delete(a.known, id)
	}
	return seen
}
