package standin

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestByTokenReadsAnswerFromToken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		token string
		want  Answer
		once  bool
		ok    bool
	}{
		{"deaddead01", Answer{Status: 410}, false, true},
		{"baddbadd01", Answer{Status: 400}, false, true},
		{"fade150301", Answer{Status: 503}, true, true},
		{"fade350301", Answer{Status: 503, RetryAfter: TokenRetryAfter}, true, true},
		{"fade0502", Answer{Status: 502, Fault: Page}, false, true},
		{"fade00ef", Answer{Fault: Close}, false, true},
		{"fade190a", Answer{Fault: GoAway}, true, true},
		{"fade090b", Answer{Fault: GoAwayUnprocessed}, false, true},
		{"fade0b1a", Answer{Fault: BlackHole}, false, true},
		{"fade0200", Answer{}, false, false},
		{"fade4503", Answer{}, false, false},
		{"00deaddead", Answer{}, false, false},
	} {
		got, once, ok := ByToken(c.token)
		if got != c.want || once != c.once || ok != c.ok {
			t.Errorf("ByToken(%q) = %+v, %v, %v", c.token, got, once, ok)
		}
	}
}

func TestScriptPrefersRespond(t *testing.T) {
	t.Parallel()
	var s Script
	next := func(token string, want int) {
		t.Helper()
		if got := s.Next(token).Status; got != want {
			t.Errorf("status %d, want %d", got, want)
		}
	}
	s.Respond("fade1503", Answer{Status: 429}, Answer{Status: 500})
	next("fade1503", 429)
	next("fade1503", 500)
	next("fade1503", 503)
	next("fade1503", 0)
	s.RespondAlways(Answer{Status: 403})
	next("aa", 403)
	s.Recover()
	next("aa", 0)
}

func TestNotificationIDIsFoundAtAnyDepth(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`{"aps":{},"pushpace_id":"n1"}`:                          "n1",
		`{"message":{"data":{"pushpace_id" : "n\"2"}}}`:          `n"2`,
		`{"aps":{"alert":"\"pushpace_id\":\"no\""}}`:             "",
		`{"aps":{"alert":"\"pushpace_id\":"},"pushpace_id":"y"}`: "y",
		`{"pushpace_id":7}`:                                      "",
		`{"pushpace_id":"`:                                       "",
		`{"pushpace_id"`:                                         "",
	} {
		if got := NotificationID([]byte(payload)); got != want {
			t.Errorf("NotificationID(%s) = %q, want %q", payload, got, want)
		}
	}
}

func TestLedgerLinesRoundTrip(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	ledger := NewLedger(Lines(&buf))
	want := []Entry{
		{At: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), Platform: "apns", App: "com.example", Token: "aa", APNsID: "id", Notification: "n\"ü", PayloadBytes: 12},
		{At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Platform: "fcm", App: "p", Token: "t:1", Name: "projects/p/messages/1"},
		{At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Platform: "fcm", App: "p", FID: "f", Name: "projects/p/messages/2"},
	}
	for _, e := range want {
		ledger.Add(e)
	}
	lines := strings.Split(strings.TrimSpace(buf.String()), "\n")
	if len(lines) != len(want) || ledger.Len() != len(want) {
		t.Fatalf("%d lines, %d counted: %s", len(lines), ledger.Len(), buf.String())
	}
	if !strings.HasPrefix(lines[1], `{"at":"2026-01-02T03:04:05.000000Z"`) {
		t.Errorf("the instant has no microseconds: %s", lines[1])
	}
	for i, line := range lines {
		var got Entry
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if !reflect.DeepEqual(got, want[i]) {
			t.Errorf("got %+v, want %+v", got, want[i])
		}
	}
}
