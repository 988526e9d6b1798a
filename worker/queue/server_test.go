package queue

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

// Trouble that all lanes have is told once, whichever jobs and queues it names.
func TestLanesSayOnce(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	told := new(once)
	for lane := range 3 {
		l := asynqLog{slog.New(slog.NewTextHandler(&out, nil)).With("lane", lane), told}
		l.Error("Dequeue error: UNKNOWN: connection refused")
		l.Error("Dequeue error: UNKNOWN: i/o timeout")
		l.Error("Failed to extend lease for tasks [", lane, "]: context deadline exceeded")
		l.Warn("Retry failed: NOT FOUND: another lane was faster")
	}
	if got := strings.Count(out.String(), "\n"); got != 2 || !strings.Contains(out.String(), "Dequeue error") || !strings.Contains(out.String(), "extend lease") {
		t.Errorf("%s", &out)
	}
}

func TestSaidAgain(t *testing.T) {
	t.Parallel()
	told, now := new(once), time.Unix(1e9, 0)
	for i, c := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {sayAgain - 1, false}, {sayAgain, true}, {sayAgain + 1, false}} {
		if got := told.first("Dequeue error: x", now.Add(c.after)); got != c.want {
			t.Errorf("%d: %t", i, got)
		}
	}
}

func TestAListOfTasksIsShortened(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Failed to extend lease for tasks [a b c]: i/o timeout": "Failed to extend lease for tasks [a and 2 more]: i/o timeout",
		"Failed to extend lease for tasks [a]: i/o timeout":     "Failed to extend lease for tasks [a]: i/o timeout",
		"Dequeue error: UNKNOWN: [::1]: refused":                "Dequeue error: UNKNOWN: [::1]: refused",
	} {
		if got := shortened(text); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}
