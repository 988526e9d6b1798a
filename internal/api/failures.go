package api

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// failuresTold is how many requests of the same status are told one by one
	// within failuresEvery; the others are counted.
	failuresTold  = 50
	failuresEvery = 10 * time.Second
)

// Failures have the log hold against who fails again and again, with a token or
// without. Close them.
type Failures struct {
	Log *slog.Logger

	mu     sync.Mutex
	counts map[int]*failed // by status
}

// A failed is how many requests have failed since its timer began.
type failed struct {
	timer *time.Timer
	told  int
	more  int
}

// Told reports whether a request with that answer is told by itself.
func (f *Failures) Told(status int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.counts[status]
	if c == nil {
		if f.counts == nil {
			f.counts = map[int]*failed{}
		}
		c = &failed{timer: time.AfterFunc(failuresEvery, func() { f.sum(status) })}
		f.counts[status] = c
	}
	if c.told < failuresTold {
		c.told++
		return true
	}
	c.more++
	return false
}

// sum tells how many were counted.
func (f *Failures) sum(status int) {
	f.mu.Lock()
	c := f.counts[status]
	delete(f.counts, status)
	f.mu.Unlock()
	if c != nil && c.more > 0 {
		f.Log.LogAttrs(context.Background(), slog.LevelWarn, "more requests failed like those before",
			slog.Int("status", status), slog.Int("requests", c.more), slog.Duration("within", failuresEvery))
	}
}

// Close tells what was counted so far.
func (f *Failures) Close() {
	f.mu.Lock()
	var open []int
	for status, c := range f.counts {
		c.timer.Stop()
		open = append(open, status)
	}
	f.mu.Unlock()
	for _, status := range open {
		f.sum(status)
	}
}
