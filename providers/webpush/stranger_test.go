package webpush

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers"
)

func TestBackoffGrowsWithFailures(t *testing.T) {
	t.Parallel()
	at, now := newStrangers().get("a.example"), time.Now()
	for range 2 {
		at.record(true, now)
	}
	if left := at.backoffLeft(now); left != 0 {
		t.Fatalf("left alone for %v after two failures", left)
	}
	for _, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * time.Minute, 5 * time.Minute} {
		at.record(true, now)
		at.record(true, now) // the push was sent before the backoff
		if left := at.backoffLeft(now); left != want {
			t.Errorf("left alone for %v, want %v", left, want)
		}
		now = now.Add(want)
		if left := at.backoffLeft(now); left != 0 {
			t.Errorf("still left alone for %v", left)
		}
	}
	at.record(false, now)
	at.record(true, now)
	if left := at.backoffLeft(now); left != 0 {
		t.Errorf("left alone for %v after one failure", left)
	}
}

// known returns a host that is known to answer.
func (s *strangers) known(host string) *stranger {
	at := s.get(host)
	at.record(false, time.Now())
	return at
}

func TestStrangersAreBounded(t *testing.T) {
	t.Parallel()
	s := newStrangers()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	at := s.known("a.example")
	leaves := make([]func(), 0, strangerInFlight)
	for range strangerInFlight {
		leave, left, err := s.enter(t.Context(), at)
		if err != nil || left != 0 {
			t.Fatal(left, err)
		}
		leaves = append(leaves, leave)
	}
	brief, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, _, err := s.enter(brief, at); err == nil {
		t.Error("one more is let in")
	}
	if _, _, err := s.enter(ended, s.get("b.example")); err == nil {
		t.Error("a push with an ended context is let in")
	}
	for _, leave := range leaves {
		leave()
	}
	if len(s.permits) != 0 || len(at.permits) != 0 {
		t.Errorf("%d and %d are in flight", len(s.permits), len(at.permits))
	}
	for i := range cap(s.permits) {
		leave, _, err := s.enter(t.Context(), s.known(fmt.Sprintf("%d.example", i)))
		must(t, err)
		defer leave()
	}
	brief, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	last := s.known("last.example")
	if _, _, err := s.enter(brief, last); err == nil || len(last.permits) != 0 {
		t.Errorf("one more host is let in, or its permit is kept: %v", err)
	}
	for i := range 2 * maxStrangers {
		s.get(fmt.Sprintf("%d.example", i))
	}
	if n := s.byHost.Len(); n != maxStrangers {
		t.Errorf("%d hosts are remembered, want %d", n, maxStrangers)
	}
}

// A host not known to answer gets one push at a time, and all such hosts together get few. Other
// pushes to them are retried later, and do not wait.
func TestUnknownHostIsProbedFirst(t *testing.T) {
	t.Parallel()
	s := newStrangers()
	at := s.get("a.example")
	enters := func(at *stranger) (leave func(), ok bool) {
		t.Helper()
		leave, left, err := s.enter(t.Context(), at)
		if err != nil || left != 0 && left != providers.MinRetryAfter {
			t.Fatalf("backoff of %v (%v)", left, err)
		}
		return leave, left == 0
	}
	probing := func(what string) (leave func()) {
		t.Helper()
		leave, ok := enters(at)
		if !ok {
			t.Fatalf("%s: none is let in", what)
		}
		if _, ok := enters(at); ok {
			t.Fatalf("%s: two are let in", what)
		}
		return leave
	}
	probing("a new host")()
	probing("a host without a result")()
	now := time.Now()
	at.record(false, now)
	for range strangerInFlight {
		leave, ok := enters(at)
		if !ok {
			t.Fatal("a push to a host that answers is not let in")
		}
		defer leave()
	}
	for range strangerFailures {
		at.record(true, now.Add(-time.Hour))
	}
	probing("after it has failed")()

	for i := range maxProbes {
		leave, ok := enters(s.get(fmt.Sprintf("new-%d.example", i)))
		if !ok {
			t.Fatalf("%d are probed, want %d", i, maxProbes)
		}
		defer leave()
	}
	if _, ok := enters(s.get("newer.example")); ok {
		t.Error("one more is probed")
	}
	if leave, ok := enters(s.known("b.example")); !ok {
		t.Error("during probes, a push to a host that answers is not let in")
	} else {
		leave()
	}
}
