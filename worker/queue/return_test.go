package queue

import (
	"errors"
	"testing"
	"time"
)

// What asynq is told: a deferral is no failure and comes back before its slot.
func TestReturn(t *testing.T) {
	t.Parallel()
	if err := Snooze("deferred", Before(10*time.Second)); isFailure(err) || retryDelay(0, err, nil) != 10*time.Second-earliness {
		t.Errorf("deferral: failure %t, delay %s", isFailure(err), retryDelay(0, err, nil))
	}
	if err := Snooze("deferred", Before(earliness/2)); retryDelay(0, err, nil) != 0 {
		t.Errorf("a deferral that is nearly over comes back in %s", retryDelay(0, err, nil))
	}
	if err := (&Return{Why: "again", After: 3 * time.Second, Failed: true}); !isFailure(err) || retryDelay(0, err, nil) != 3*time.Second {
		t.Errorf("retry: failure %t, delay %s", isFailure(err), retryDelay(0, err, nil))
	}
	if err := Snooze("away", Again); isFailure(err) {
		t.Error("an outage of ours counts as a failure")
	}
	if !isFailure(errors.New("asynq: task lease expired")) {
		t.Error("a crash does not count, so that the next visit would not look at the record")
	}
}
