package worker

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/pushpace/pushpace/providers"
)

// A Trouble is what a worker knows of a provider that fails it.
type Trouble struct {
	// Reason and Error are the last failure's. Error holds no token, key or body.
	Reason providers.Reason `json:"reason"`
	Error  string           `json:"error,omitempty"`
	// Since is when the first of so many Failures was.
	Since    time.Time `json:"since"`
	Failures int       `json:"failures"`
	// Next is when the worker looks again whether the provider works.
	Next time.Time `json:"next,omitzero"`
}

// longestCause bounds the text of an error that is told.
const longestCause = 300

func causeOf(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	return text[:min(len(text), longestCause)]
}

// failures are those of a provider, one after the other. The zero value is none.
type failures struct {
	some atomic.Bool
	mu   sync.Mutex
	run  Trouble
}

// note takes in what an outcome says of the provider.
func (r *route) note(now time.Time, o providers.Outcome) {
	switch f := &r.failures; symptom(o) {
	case nil:
		// failures here and there are no trouble
		if f.some.Load() && r.breaker.cb.State() == gobreaker.StateClosed {
			f.end()
		}
	case errTrouble:
		f.add(now, o)
	}
}

func (f *failures) add(now time.Time, o providers.Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.run.Failures == 0 {
		f.run.Since = now
		f.some.Store(true)
	}
	f.run.Failures++
	f.run.Reason, f.run.Error = o.Reason, causeOf(o.Err)
}

func (f *failures) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.run = Trouble{}
	f.some.Store(false)
}

func (f *failures) last() Trouble {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.run
}
