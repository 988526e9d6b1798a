package queue

import (
	"errors"
	"strings"
	"time"

	"github.com/hibiken/asynq"
)

// A Return is the error by which a handler has its job return to the queue.
type Return struct {
	Why   string
	After time.Duration
	// Wanted is when the job is wanted in a worker's hands, if it comes back before that:
	// see Before.
	Wanted time.Time
	// Failed counts on asynq's side, which tells the next visit to look at the
	// notification's record.
	Failed bool
}

// ErrLost returns a job that another worker may have: nothing becomes of it here.
var ErrLost = &Return{Why: "another worker may have it"}

// Error is what asynq keeps in the job: Why and wanted read it.
func (r *Return) Error() string {
	kept := r.Why + backIn + r.After.String()
	if !r.Wanted.IsZero() {
		kept += wantedAt + r.Wanted.UTC().Format(time.RFC3339Nano)
	}
	return kept
}

const (
	backIn   = ", back in "
	wantedAt = ", wanted at "
)

// wanted returns when a job is wanted that has returned with that error; zero when
// nobody has said, and for one that has been woken since: that is wanted now.
func wanted(kept string, now time.Time) time.Time {
	_, at, said := strings.Cut(kept, wantedAt)
	if !said {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, at)
	if err != nil || now.Before(t.Add(-earliness).Truncate(time.Second)) {
		return time.Time{}
	}
	return t
}

// Why returns why a job has returned, by the error that asynq has kept.
func Why(kept string) string {
	why, _, _ := strings.Cut(kept, backIn)
	return why
}

// Snooze returns the job after so long. It is no failure and spends nothing.
func Snooze(why string, after time.Duration) *Return { return &Return{Why: why, After: after} }

// Before is the delay of a job that is wanted in a worker's hands by the end of the time
// left: asynq looks for delayed jobs only so often. It floors the instant to whole
// seconds on top of it. What is left then is waited for in the process.
func Before(left time.Duration) time.Duration { return max(0, left-earliness) }

const earliness = pollDelayed + 50*time.Millisecond

// Again is after how long a job returns for a reason of ours that may pass.
const Again = 2 * time.Second

func retryDelay(_ int, err error, _ *asynq.Task) time.Duration {
	var r *Return
	if errors.As(err, &r) {
		return r.After
	}
	return Again // a crashed worker's job, or a panic of ours
}

func isFailure(err error) bool {
	var r *Return
	return !errors.As(err, &r) || r.Failed
}
