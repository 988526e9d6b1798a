package main

import (
	"slices"
	"sync"
	"time"

	"github.com/pushpace/pushpace/worker"
)

// A stopwatch is a worker.Observer that notes how often the limiter is asked,
// and how late those go out that a limit alone held.
type stopwatch struct {
	worker.Nobody

	mu     sync.Mutex
	checks int
	late   []time.Duration
}

// Checked implements worker.Observer.
func (s *stopwatch) Checked(time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checks++
}

// Paced implements worker.Observer.
func (s *stopwatch) Paced(lateness time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = append(s.late, lateness)
}

// read returns how often the limiter was asked, and the latenesses in order.
func (s *stopwatch) read() (checks int, late []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.checks, slices.Sorted(slices.Values(s.late))
}

// percentile returns the smallest of the sorted values that at least p of them,
// 0 to 1, do not exceed; 0 when there are none.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	i := int(p*float64(len(sorted)) + 0.9999999)
	return sorted[min(max(i, 1), len(sorted))-1]
}
