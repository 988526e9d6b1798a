package queue

import (
	"errors"
	"testing"
	"time"

	"github.com/hibiken/asynq"
)

// asynq counts a retry and a crash as a failure, and no deferral.
func TestReturn(t *testing.T) {
	t.Parallel()
	if err := (&Return{Why: Deferred, After: 10 * time.Second}); isFailure(err) {
		t.Error("a deferral is a failure")
	}
	if err := (&Return{Why: Retried, After: 3 * time.Second, Failed: true}); !isFailure(err) {
		t.Error("a retry is no failure")
	}
	if !isFailure(asynq.ErrLeaseExpired) {
		t.Error("a crash does not count, so that the next visit would not look at the record")
	}
}

// readReturn reads what Error writes, and takes no other text for a Return.
func TestReadReturn(t *testing.T) {
	t.Parallel()
	for _, why := range Whys {
		want := Return{Why: why, Key: "apns/shop", Detail: "wrong \"type\": <&>\n", After: 9123456 * time.Microsecond, First: time.Date(2026, 11, 20, 19, 0, 0, 0, time.UTC)}
		sent := want
		sent.Failed = true
		if got := readReturn(sent.Error()); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	for kept, want := range map[string]Why{
		"":                               "",
		asynq.ErrLeaseExpired.Error():    Crashed,
		"deferred, back in 3s":           Unreadable,
		"to be sent again, back in 1m":   Unreadable,
		"{}":                             Unreadable,
		`{"why":"of a later version"}`:   Unreadable,
		`{"why":"deferred","after":"1"}`: Unreadable,
		`{"why":"deferred"`:              Unreadable,
		"null":                           Unreadable,
	} {
		if got := readReturn(kept); got != (Return{Why: want}) {
			t.Errorf("%q: %+v, want %q", kept, got, want)
		}
	}
	if got := readReturn(errors.New("odd").Error()); got.Why != Unreadable {
		t.Errorf("another's error: %q", got.Why)
	}
}
