package queue

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/worker/clock"
)

// Trouble that all lanes have is told once, whichever jobs and queues it names.
func TestLanesSayOnce(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	told := new(clock.Rarely)
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

func TestALongTextIsShortened(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	l := asynqLog{slog.New(slog.NewTextHandler(&out, nil)), new(clock.Rarely)}
	l.Error("Failed to extend lease for tasks [", strings.Repeat("a ", 10000), "]: i/o timeout")
	if got := out.String(); len(got) > 2*longest || !strings.Contains(got, "tasks [a a") || !strings.Contains(got, "]: i/o timeout") {
		t.Error(got)
	}
}
