package pause

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pushpace/pushpace/push"
)

// A Job is one on the queue that comes back when an operator's pause ends, or the route
// is open again that it was held for. The queue is "" when it is not known.
type Job struct{ Queue, ID string }

// Which of the jobs are popped.
type Which string

// First are those of the highest priority, and among them the first accepted. Any are
// drawn at random.
const (
	First Which = "first"
	Any   Which = "any"
)

const (
	// jobsLive is how long it is remembered what a pause keeps, after the last job
	// that came back to look: longer than any stays away.
	jobsLive = 2 * time.Hour
	// wakingTime is for how long nobody else wakes a job that was popped. One that
	// was not woken, as its worker crashed or a worker had it in hand, is popped again.
	wakingTime = time.Second
)

// AddJobs remembers jobs that come back when the pauses of the selector end, or the
// route of that name is open, among the others by the priority and the acceptance of
// one of them.
func (s *Store) AddJobs(ctx context.Context, selector string, p push.Priority, accepted time.Time, jobs ...Job) error {
	args := append([]any{selector, jobsLive.Milliseconds(), place(p, accepted)}, members(jobs)...)
	if err := s.run(ctx, "add", selector, args...).Err(); err != nil {
		return fmt.Errorf("remember what is paused: %w", err)
	}
	return nil
}

// members are jobs as Redis has them.
func members(jobs []Job) []any {
	members := make([]any, len(jobs))
	for i, job := range jobs {
		members[i] = job.Queue + " " + job.ID
	}
	return members
}

// place is the jobs' score: each priority has more ms than there will be.
func place(p push.Priority, accepted time.Time) int64 {
	const each = 1e13
	switch ms := accepted.UnixMilli(); p {
	case push.Critical:
		return ms
	case push.Bulk:
		return ms + 2*each
	default:
		return ms + each
	}
}

// PopJobs returns so many of the jobs that were added and nobody wakes.
func (s *Store) PopJobs(ctx context.Context, selector string, most int, which Which) ([]Job, error) {
	reply, err := s.run(ctx, "pop", selector, selector, jobsLive.Milliseconds(), most, wakingTime.Milliseconds(), string(which)).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("take up what was paused: %w", err)
	}
	jobs := make([]Job, len(reply))
	for i := range reply {
		jobs[i].Queue, jobs[i].ID, _ = strings.Cut(reply[i], " ")
	}
	return jobs, nil
}

// Woken forgets jobs that were popped.
func (s *Store) Woken(ctx context.Context, selector string, jobs []Job) error {
	if len(jobs) == 0 {
		return nil
	}
	if err := s.run(ctx, "woken", selector, append([]any{selector}, members(jobs)...)...).Err(); err != nil {
		return fmt.Errorf("forget what was paused: %w", err)
	}
	return nil
}
