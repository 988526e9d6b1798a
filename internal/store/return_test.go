package store

import (
	"testing"
	"time"
)

// readReturn reads stored Returns, and rejects other text.
func TestReadReturnRejectsOtherText(t *testing.T) {
	t.Parallel()
	for _, why := range WaitReasons {
		want := Return{Why: why, Key: "apns/shop", Detail: "wrong \"type\": <&>\n", After: 9123456 * time.Microsecond, First: time.Date(2026, 11, 20, 19, 0, 0, 0, time.UTC)}
		sent := want
		sent.Failed = true
		if got := readReturn(sent.text()); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	for kept, want := range map[string]WaitReason{
		"":                               "",
		"deferred, back in 3s":           Unreadable,
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
}
