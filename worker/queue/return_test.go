package queue

import (
	"errors"
	"testing"
	"time"

	"github.com/hibiken/asynq"
)

// What asynq is told: a deferral is no failure and comes back before its slot.
func TestReturn(t *testing.T) {
	t.Parallel()
	deferred := func(after time.Duration) *Return { return &Return{Why: Deferred, After: after} }
	if err := deferred(Before(10 * time.Second)); isFailure(err) || retryDelay(0, err, nil) != 10*time.Second-earliness {
		t.Errorf("deferral: failure %t, delay %s", isFailure(err), retryDelay(0, err, nil))
	}
	if err := deferred(Before(earliness / 2)); retryDelay(0, err, nil) != 0 {
		t.Errorf("a deferral that is nearly over comes back in %s", retryDelay(0, err, nil))
	}
	if err := (&Return{Why: Retried, After: 3 * time.Second, Failed: true}); !isFailure(err) || retryDelay(0, err, nil) != 3*time.Second {
		t.Errorf("retry: failure %t, delay %s", isFailure(err), retryDelay(0, err, nil))
	}
	if !isFailure(asynq.ErrLeaseExpired) {
		t.Error("a crash does not count, so that the next visit would not look at the record")
	}
}

// What asynq keeps of a Return says why and when it is wanted, and nothing else is taken
// for one.
func TestReadReturn(t *testing.T) {
	t.Parallel()
	for _, why := range Whys {
		want := Return{Why: why, Key: "apns/shop", Detail: "wrong \"type\": <&>\n", Wanted: time.Date(2026, 11, 20, 20, 0, 9, 123456000, time.UTC), First: time.Date(2026, 11, 20, 19, 0, 0, 0, time.UTC)}
		sent := want
		sent.After, sent.Failed = time.Second, true
		if got := readReturn(sent.Error()); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	for kept, want := range map[string]Why{
		"":                              "",
		asynq.ErrLeaseExpired.Error():   Crashed,
		"deferred, back in 3s":          Unreadable,
		"to be sent again, back in 1m":  Unreadable,
		"{}":                            Unreadable,
		`{"why":"of a later version"}`:  Unreadable,
		`{"why":"deferred","wanted":1}`: Unreadable,
		`{"why":"deferred"`:             Unreadable,
		"null":                          Unreadable,
	} {
		if got := readReturn(kept); got != (Return{Why: want}) {
			t.Errorf("%q: %+v, want %q", kept, got, want)
		}
	}
	if got := readReturn(errors.New("odd").Error()); got.Why != Unreadable {
		t.Errorf("another's error: %q", got.Why)
	}
}

// A job that has returned knows when it is wanted, unless it was woken before its time.
func TestWanted(t *testing.T) {
	t.Parallel()
	slot := time.Date(2026, 11, 20, 20, 0, 9, 123456000, time.UTC)
	r := Return{Why: Deferred, Wanted: slot}
	due := slot.Add(-earliness).Truncate(time.Second) // asynq's instants are whole seconds
	if got := r.wanted(due); !got.Equal(slot) {
		t.Errorf("wanted at %s, want %s", got, slot)
	}
	if got := r.wanted(due.Add(-time.Nanosecond)); !got.IsZero() {
		t.Errorf("woken before, and wanted at %s", got)
	}
	if got := (Return{Why: Deferred}).wanted(due); !got.IsZero() {
		t.Errorf("nobody has said, and wanted at %s", got)
	}
}
