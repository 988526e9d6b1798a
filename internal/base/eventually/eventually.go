// Package eventually makes a test wait for a goroutine or process, and reads its output meanwhile.
// Start with Holds.
package eventually

import (
	"bytes"
	"sync"
	"testing"
	"time"
)

// Patience is how long Holds waits: longer than any awaited step takes on a busy machine.
const Patience = 2 * time.Minute

// Holds waits until the condition is true, and fails the test after Patience.
func Holds(t testing.TB, what string, condition func() bool) {
	t.Helper()
	if !Within(Patience, condition) {
		t.Fatalf("after %s still not true: %s", Patience, what)
	}
}

// Within checks the condition, first at once and then less and less often, until it is true or the
// limit has passed. It reports whether the condition is true.
func Within(limit time.Duration, condition func() bool) bool {
	const shortest, longest = time.Millisecond, 20 * time.Millisecond
	over := time.NewTimer(limit)
	defer over.Stop()
	pause := shortest
	next := time.NewTimer(pause)
	defer next.Stop()
	for !condition() {
		select {
		case <-over.C:
			return condition()
		case <-next.C:
		}
		pause = min(2*pause, longest)
		next.Reset(pause)
	}
	return true
}

// A Log is a buffer that is safe for concurrent use.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Take returns the text so far, and clears it.
func (l *Log) Take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.b.Reset()
	return l.b.String()
}
