package queue

import (
	"errors"
	"log/slog"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/internal/store"
)

// guide is what to do about another asynq.
const guide = `It may not speak to Redis as asynq ` + store.Version + ` does.

For each script that differs, compare asynq's internal/rdb/rdb.go at both versions:
  enqueueCmd           store/accept.go, enqueueScript does the same and the record's part,
                       and wakes an idle worker
  scheduleCmd          store/accept.go, enqueueScript does the same and the record's part
  dequeueCmd           pull.go, pullScript does the same for several jobs
  doneCmd              store/done.go, doneScript does the same for several jobs and settles;
                       replaced.go, endScript the same for a job that the worker still has
  requeueCmd           replaced.go, cutOffScript does the same for a job that the worker
                       still has, and counts a failure
  forwardCmd           replaced.go, forwardScript does the same, of both sets at
                       once, and knows no groups
  listLeaseExpiredCmd  replaced.go, overScript does the same page by page
  retryCmd             replaced.go, returnScript does the same for a job that the worker
                       still has; returnJob looks at its keys and args[1], and runs it as
                       it is where a lease is over; store.Envelope reads the message
  ZADD … XX            a lease: handOut in pull.go is shorter, insistFor in client.go longer
Bring ours in line, then the hashes in scripts.go and internal/store/asynq.go, then
store.Version.
`

// The start is refused by an asynq of which any one script is another.
func TestAnotherAsynqStopsTheStart(t *testing.T) {
	t.Parallel()
	known := maps.Clone(scripts)
	known[store.EnqueueHash], known[store.ScheduleHash] = "enqueueCmd", "scheduleCmd"
	for _, hash := range []string{store.EnqueueHash, store.ScheduleHash, dequeueHash, doneHash, retryHash, requeueHash, forwardHash, leasesHash} {
		others := maps.Clone(known)
		delete(others, hash)
		if err := check(others); err == nil || !strings.Contains(err.Error(), hash) || !strings.Contains(err.Error(), store.Version) {
			t.Errorf("%s: %v", known[hash], err)
		}
	}
	s := NewServer(Config{Records: new(store.Shard), RedisLog: slog.New(slog.DiscardHandler), Hands: NewHands(1)})
	refusal := errors.New("another asynq")
	s.check = func() error { return refusal }
	if err := s.Start(t.Context(), nil); !errors.Is(err, refusal) {
		t.Error(err)
	}
}

// The version that is told is the one that the scripts were compared with.
func TestVersionOfAsynq(t *testing.T) {
	t.Parallel()
	module, err := os.ReadFile("../../go.mod")
	if err != nil || !strings.Contains(string(module), "github.com/hibiken/asynq "+store.Version+"\n") {
		t.Errorf("%v: go.mod has another asynq. %s", err, guide)
	}
}
