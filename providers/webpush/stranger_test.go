package webpush

import (
	"context"
	"fmt"
	"testing"
	"time"
)

func TestAHostThatFailsIsLeftAlone(t *testing.T) {
	t.Parallel()
	at, now := newStrangers().get("a.example"), time.Now()
	for range 2 {
		at.note(true, now)
	}
	if left := at.left(now); left != 0 {
		t.Fatalf("left alone for %v after two failures", left)
	}
	for _, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * time.Minute, 5 * time.Minute} {
		at.note(true, now)
		at.note(true, now) // it was on its way already
		if left := at.left(now); left != want {
			t.Errorf("left alone for %v, want %v", left, want)
		}
		now = now.Add(want)
		if left := at.left(now); left != 0 {
			t.Errorf("still left alone for %v", left)
		}
	}
	at.note(false, now)
	at.note(true, now)
	if left := at.left(now); left != 0 {
		t.Errorf("left alone for %v after one failure", left)
	}
}

func TestStrangersAreBounded(t *testing.T) {
	t.Parallel()
	s := newStrangers()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	at := s.get("a.example")
	leaves := make([]func(), 0, strangerInFlight)
	for range strangerInFlight {
		leave, err := s.enter(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leave)
	}
	brief, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := s.enter(brief, at); err == nil {
		t.Error("one more is let in")
	}
	if _, err := s.enter(ended, s.get("b.example")); err == nil {
		t.Error("what has ended is let in")
	}
	for _, leave := range leaves {
		leave()
	}
	if len(s.slots) != 0 || len(at.slots) != 0 {
		t.Errorf("%d and %d are in flight", len(s.slots), len(at.slots))
	}
	for i := range maxInFlight {
		leave, err := s.enter(t.Context(), s.get(fmt.Sprintf("%d.example", i)))
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
	}
	brief, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	last := s.get("last.example")
	if _, err := s.enter(brief, last); err == nil || len(last.slots) != 0 {
		t.Errorf("one more host is let in, or its slot is kept: %v", err)
	}
	for i := range 2 * maxStrangers {
		s.get(fmt.Sprintf("%d.example", i))
	}
	if n := s.byHost.Len(); n != maxStrangers {
		t.Errorf("%d hosts are remembered, want %d", n, maxStrangers)
	}
}
