//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
)

// A user's timeline as the operator sees it: as tables, and as JSON.
func TestTimeline(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.simulate(t)
	workers := s.serve(t)
	var input strings.Builder
	for i := range 3 {
		input.WriteString(notification(fmt.Sprintf("news-%d", i), "ada", "marketing", "apns", "00"))
	}
	s.send(t, exitDone, input.String())
	var known control.Timeline
	workers.until(t, "two bookings", func() bool {
		known = control.Timeline{}
		p := start(t, s.setup, "timeline", "ada", "--json")
		if got := p.wait(t, 10*time.Second); got != exitDone || json.Unmarshal([]byte(p.stdout.String()), &known) != nil {
			t.Fatalf("exit status %d: %s%s", got, &p.stdout, &p.stderr)
		}
		return len(known.Bookings) == 2 && known.Bookings[1].Rule != ""
	})
	if known.App != "demo" || known.User != "ada" || len(known.Scopes) != 4 || len(known.Scopes[0].Limits) != 3 || !known.Scopes[3].Exempt {
		t.Errorf("%+v", known)
	}
	marketing := known.Scopes[1]
	if marketing.Scope != "marketing" || len(marketing.Admissions) != 1 || len(marketing.Limits) != 1 ||
		marketing.Limits[0].Used != 1 || marketing.Limits[0].Free.Sub(known.Now) < 23*time.Hour {
		t.Errorf("%+v", marketing)
	}
	next := known.Bookings[0]
	if next.Scope != "marketing" || next.Rule != "1/24h" || next.State != push.Waiting || next.Slot.Sub(known.Now) < 23*time.Hour {
		t.Errorf("%+v", next)
	}
	p := start(t, s.setup, "timeline", "ada")
	if got := p.wait(t, 10*time.Second); got != exitDone {
		t.Fatalf("exit status %d: %s", got, &p.stderr)
	}
	answer, _, _ := strings.Cut(p.stdout.String(), "\n\n")
	for _, want := range []string{next.ID, "until 20", "the limit 1/24h of category marketing"} {
		if !strings.Contains(answer, want) {
			t.Errorf("no %q in %s", want, answer)
		}
	}
	// the queue's end of it, with the way here
	p = start(t, s.setup, "status", next.ID)
	if got := p.wait(t, 10*time.Second); got != exitDone || !strings.Contains(p.stdout.String(), "pushpace timeline --app demo ada") {
		t.Errorf("exit status %d: %s%s", got, &p.stdout, &p.stderr)
	}
	s.stop(t, workers)
}
