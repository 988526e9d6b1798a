package worker

import (
	"maps"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// lastFailedAtField is the number of asynq's TaskMessage.last_failed_at, which
// asynq sets when a job goes back to the queue, for whatever reason.
const lastFailedAtField = 11

// wentBack is when the message was last put back on the queue, in whole seconds;
// zero for one that comes for the first time.
func wentBack(message string) time.Time {
	fields := []byte(message) // not copied: nothing writes to it
	for len(fields) > 0 {
		number, kind, n := protowire.ConsumeTag(fields)
		if n < 0 {
			return time.Time{}
		}
		value := fields[n:]
		length := protowire.ConsumeFieldValue(number, kind, value)
		if length < 0 {
			return time.Time{}
		}
		if number == lastFailedAtField && kind == protowire.VarintType {
			if at, _ := protowire.ConsumeVarint(value); at > 0 {
				return time.Unix(int64(at), 0)
			}
		}
		fields = value[length:]
	}
	return time.Time{}
}

// visits are the jobs on their way to the handler that are not there for the
// first time: asynq keeps it to itself. The zero value is ready to use.
type visits struct {
	mu     sync.Mutex
	back   map[string]visit // by ID
	pruned time.Time
}

// A visit is one that asynq may never bring to the handler.
type visit struct{ back, at time.Time } // when it went back to the queue, and came

// note notes a job that is handed out.
func (v *visits) note(job *pulled) {
	at := wentBack(job.message)
	if at.IsZero() {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.back == nil {
		v.back = make(map[string]visit)
	}
	if job.at.Sub(v.pruned) > forgetAfter {
		v.pruned = job.at
		maps.DeleteFunc(v.back, func(_ string, seen visit) bool { return job.at.Sub(seen.at) > forgetAfter })
	}
	v.back[job.id] = visit{at, job.at}
}

// take answers when the job went back to the queue; zero for a first visit.
func (v *visits) take(id string) time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	seen, ok := v.back[id]
	if ok {
		delete(v.back, id)
	}
	return seen.back
}
