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
	s := &worker.Status{Record: &push.Record{State: push.Expired, Outcomes: []push.TargetOutcome{
		{}, {Kind: "dead_token", Reason: "unregistered"}, {Kind: "delivered"},
		{Ambiguous: true}, {Kind: "retry", Reason: "timed_out", Ambiguous: true}, {Kind: "delivered", Reason: "ok", Ambiguous: true},
	}}}
	var out strings.Builder
	if err := printStatus(&out, s, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"target 1  not sent\n", "target 2  dead_token unregistered\n", "target 3  delivered\n",
		"target 4  may have been sent (ambiguous)\n", "target 5  retry timed_out, may have been sent (ambiguous)\n",
		"target 6  delivered ok, perhaps more than once (ambiguous)\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, &out)
		}
	}
}
