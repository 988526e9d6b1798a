package worker

import (
	"maps"
	"sync"
	"time"
)

// visits are the jobs on their way to the handler of which it has to know what
// asynq keeps to itself: that they are not there for the first time, or were put
// on the queue by somebody else. The zero value is ready to use.
type visits struct {
	mu     sync.Mutex
	known  map[string]visit // by ID
	pruned time.Time
}

// A visit is one that asynq may never bring to the handler.
type visit struct {
	back    time.Time // when it went back to the queue; zero at the first visit
	foreign bool      // no Producer of ours has put it there
	at      time.Time
}

// note notes a job that is handed out.
func (v *visits) note(job *pulled) {
	if job.back.IsZero() && !job.foreign {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known == nil {
		v.known = make(map[string]visit)
	}
	if job.at.Sub(v.pruned) > forgetAfter {
		v.pruned = job.at
		maps.DeleteFunc(v.known, func(_ string, seen visit) bool { return job.at.Sub(seen.at) > forgetAfter })
	}
	v.known[job.id] = visit{job.back, job.foreign, job.at}
}

// take answers what is known of the visit; the zero value for a first one of a
// job of ours.
func (v *visits) take(id string) visit {
	v.mu.Lock()
	defer v.mu.Unlock()
	seen, ok := v.known[id]
	if ok {
		delete(v.known, id)
	}
	return seen
}
