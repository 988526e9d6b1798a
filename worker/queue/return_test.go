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

// A job that has returned knows when it is wanted, unless it was woken before its time.
func TestWanted(t *testing.T) {
	t.Parallel()
	slot := time.Date(2026, 11, 20, 20, 0, 9, 123456000, time.UTC)
	kept := (&Return{Why: "deferred", After: 3 * time.Second, Wanted: slot}).Error()
	due := slot.Add(-earliness).Truncate(time.Second) // asynq's instants are whole seconds
	if got := Why(kept); got != "deferred" {
		t.Errorf("why: %q", got)
	}
	if got := wanted(kept, due); !got.Equal(slot) {
		t.Errorf("wanted at %s, want %s", got, slot)
	}
	if got := wanted(kept, due.Add(-time.Nanosecond)); !got.IsZero() {
		t.Errorf("woken before, and wanted at %s", got)
	}
	for _, kept := range []string{"", "odd", Snooze("deferred", time.Second).Error(), "odd" + wantedAt + "odd"} {
		if got := wanted(kept, due); !got.IsZero() {
			t.Errorf("%q: wanted at %s", kept, got)
		}
	}
}
