package queue

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/internal/base/repeats"
)

// asynq's trouble is told once and then counted, whichever jobs and queues it names.
func TestTroubleIsSaidOnce(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	told := new(repeats.Log)
	l := asynqLog{slog.New(slog.NewTextHandler(&out, nil)), told}
	for task := range 3 {
		l.Error("Dequeue error: UNKNOWN: connection refused")
		l.Error("Dequeue error: UNKNOWN: i/o timeout")
		l.Error("Failed to extend lease for tasks [", task, "]: context deadline exceeded")
		l.Warn("Lease reset failed for ", task, "; lease deadline: yesterday")
		l.Warn("Retry failed: NOT FOUND: another worker was faster")
	}
	told.Close()
	if got := strings.Count(out.String(), "\n"); got != 6 {
		t.Errorf("%s", &out)
	}
	for _, want := range []string{
		`level=ERROR msg="queue: Dequeue error" said="Dequeue error: UNKNOWN: connection refused"`, `msg="queue: Dequeue error" again=5 `,
		`level=ERROR msg="queue: Failed to extend" said="Failed to extend lease`, `msg="queue: Failed to extend" again=2 `,
		`level=WARN msg="queue: Lease reset failed" `, `msg="queue: Lease reset failed" again=2 `,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, &out)
		}
	}
}
