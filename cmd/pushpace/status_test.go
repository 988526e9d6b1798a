package main

import (
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker"
)

// A target that nothing was sent to is told apart from one that was served.
func TestStatusOfTargets(t *testing.T) {
	t.Parallel()
	s := &worker.Status{Record: &push.Record{State: push.Expired, Outcomes: []push.TargetOutcome{{}, {Kind: "dead_token", Reason: "unregistered"}, {Kind: "delivered"}}}}
	var out strings.Builder
	if err := printStatus(&out, s, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"target 1  not sent\n", "target 2  dead_token unregistered\n", "target 3  delivered\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, &out)
		}
	}
}
