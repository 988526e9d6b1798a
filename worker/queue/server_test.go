package queue

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/repeats"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
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

func TestALongTextIsShortened(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	l := asynqLog{slog.New(slog.NewTextHandler(&out, nil)), new(repeats.Log)}
	l.Error("Failed to extend lease for tasks [", strings.Repeat("a ", 10000), "]: i/o timeout")
	if got := out.String(); len(got) > 2*longest || !strings.Contains(got, "tasks [a a") || !strings.Contains(got, "]: i/o timeout") {
		t.Error(got)
	}
}

// Nothing of a shard waits for asynq's lists of servers, which lie on any master.
func TestAsynqListsNoServers(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	s := idling(t, client, time.Minute)
	for _, id := range []string{"one", "two"} { // asynq tells of itself before it hands out the first
		s.enqueue(id, push.Default)
		<-s.handled
	}
	for _, key := range []string{"asynq:servers", "asynq:workers"} {
		if n := client.Exists(t.Context(), key).Val(); n > 0 {
			t.Errorf("%s is there", key)
		}
	}
}
