package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// A stopwatch is a limiter that notes how often it is asked, and which slot it
// promises to each notification that has to wait.
type stopwatch struct {
	throttle.Limiter

	mu     sync.Mutex
	checks int
	slots  map[string]time.Time // by ID, on this process's clock
}

func newStopwatch(l throttle.Limiter) *stopwatch {
	return &stopwatch{Limiter: l, slots: map[string]time.Time{}}
}

// Acquire implements throttle.Limiter.
func (s *stopwatch) Acquire(ctx context.Context, r throttle.Request) (throttle.Decision, error) {
	d, err := s.Limiter.Acquire(ctx, r)
	slot := time.Now().Add(d.Left)
	if len(r.Scopes) == 0 {
		return d, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checks++
	if err == nil && d.Left > 0 {
		s.slots[r.ID] = slot
	}
	return d, err
}

// lateness answers how much after its slot each that had to wait was received,
// in order.
func (s *stopwatch) lateness(received map[string]time.Time) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var late []time.Duration
	for id, slot := range s.slots {
		if at, ok := received[id]; ok {
			late = append(late, at.Sub(slot))
		}
	}
	slices.Sort(late)
	return late
}

// percentile answers the smallest of the sorted values that at least p of them,
// 0 to 1, do not exceed; 0 when there are none.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	i := int(p*float64(len(sorted)) + 0.9999999)
	return sorted[min(max(i, 1), len(sorted))-1]
}

// asked answers how often it was asked.
func (s *stopwatch) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.checks
}
