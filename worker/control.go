package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
)

// Control is for operators: it looks at the notifications on the queue, and
// takes them from it. Its zero value is not usable.
type Control struct {
	records   *push.Records
	limiter   throttle.Limiter
	limits    *throttle.Limits
	inspector *asynq.Inspector
}

// NewControl returns a control over the workers' queues, records and limits.
func NewControl(queue redis.UniversalClient, records *push.Records, limiter throttle.Limiter, limits *throttle.Limits) *Control {
	return &Control{records, limiter, limits, asynq.NewInspectorFromRedisClient(queue)}
}

// ErrUnderWay means that a worker has the notification in its hands right now.
var ErrUnderWay = errors.New("the notification is being sent right now")

// ErrEnded means that the notification has ended already.
var ErrEnded = errors.New("the notification has ended")

// Cancel ends a notification that waits, gives its slot back, and has those
// behind it move up. It answers push.ErrUnknownID, ErrEnded or ErrUnderWay when
// there is nothing to cancel, or not now. Calling it again after another error
// is safe.
func (c *Control) Cancel(ctx context.Context, id string) error {
	record, err := c.records.Lookup(ctx, id)
	if err != nil {
		return err
	}
	if record.State.Ended() {
		return fmt.Errorf("%w: %s", ErrEnded, record.State)
	}
	if !record.Confirmed {
		return ErrUnderWay // its producer is about to enqueue it
	}
	return c.take(ctx, id, record.Queue, push.End{State: push.Cancelled}, func(n *push.Notification) error {
		moved, err := c.limiter.Cancel(ctx, throttle.Request{App: n.App, User: n.User, ID: n.ID, Scopes: c.limits.Scopes(n.Category)})
		if err != nil {
			return err
		}
		c.Wake(ctx, moved)
		return nil
	})
}

// take removes the notification's job from the queue and ends it. The slot is
// dealt with in between, so that whoever repeats a take that broke off finds
// either the job or nothing that is left to do but the end.
func (c *Control) take(ctx context.Context, id, queue string, end push.End, slot func(*push.Notification) error) error {
	info, err := c.inspector.GetTaskInfo(queue, id)
	switch {
	case errors.Is(err, asynq.ErrTaskNotFound), errors.Is(err, asynq.ErrQueueNotFound):
		// taken before by a call that broke off
	case err != nil:
		return fmt.Errorf("look for the job: %w", err)
	case info.State == asynq.TaskStateActive:
		return ErrUnderWay
	default:
		if err := c.inspector.DeleteTask(queue, id); err != nil {
			if again, _ := c.inspector.GetTaskInfo(queue, id); again != nil && again.State == asynq.TaskStateActive {
				return ErrUnderWay
			}
			return fmt.Errorf("take the job from the queue: %w", err)
		}
		if job, err := push.Decode(info.Payload); err == nil {
			if err := slot(job.Notification); err != nil {
				return fmt.Errorf("give the slot back: %w", err)
			}
		}
	}
	first, err := c.records.Settle(ctx, id, end)
	if err == nil && !first {
		return ErrEnded
	}
	return err
}

// Wake has jobs come back for slots that have moved forward. asynq would bring
// them back for the old ones. What it cannot find is under way anyway.
func (c *Control) Wake(ctx context.Context, moved []throttle.Booking) {
	for _, b := range moved {
		record, err := c.records.Lookup(ctx, b.ID)
		if err == nil && !record.State.Ended() && record.Until.Sub(b.Slot) >= worthWaking {
			_ = c.inspector.RunTask(record.Queue, b.ID)
		}
	}
}

// worthWaking is what a job has to gain for it to be woken, which costs a check.
const worthWaking = 500 * time.Millisecond

// A Status is all that is known of a notification.
type Status struct {
	ID string `json:"id"`
	*push.Record
	// Job is where asynq has its job: pending, active, scheduled or retry; empty
	// when it has none.
	Job string `json:"job,omitempty"`
}

// Status answers where the notification is, or push.ErrUnknownID.
func (c *Control) Status(ctx context.Context, id string) (*Status, error) {
	record, err := c.records.Lookup(ctx, id)
	if err != nil {
		return nil, err
	}
	s := &Status{ID: id, Record: record}
	if !record.State.Ended() {
		if info, err := c.inspector.GetTaskInfo(record.Queue, id); err == nil {
			s.Job = info.State.String()
		}
	}
	return s, nil
}

// An Audit compares what was accepted with what became of it.
type Audit struct {
	Accepted  int64                `json:"accepted"`
	Ended     map[push.State]int64 `json:"ended"`
	Waiting   int64                `json:"waiting"`
	Malformed int64                `json:"malformed"`
	// Queued is how many jobs asynq holds. What waits and is not queued is lost;
	// what is queued and does not wait is not accepted yet, or malformed.
	Queued int64 `json:"queued"`
	// Difference is Waiting less Queued: 0 at rest, and in motion within what is
	// in flight.
	Difference int64 `json:"difference"`
}

// Audit counts. It reads the sums before the queues.
func (c *Control) Audit(ctx context.Context) (*Audit, error) {
	counts, err := c.records.Counts(ctx)
	if err != nil {
		return nil, err
	}
	a := &Audit{Accepted: counts.Accepted, Ended: counts.Ended, Waiting: counts.Waiting(), Malformed: counts.Malformed}
	known, err := c.inspector.Queues()
	if err != nil {
		return nil, fmt.Errorf("list the queues: %w", err)
	}
	for queue := range push.Queues() {
		if !slices.Contains(known, queue) {
			continue // nothing was ever enqueued
		}
		info, err := c.inspector.GetQueueInfo(queue)
		if err != nil {
			return nil, fmt.Errorf("count the jobs of queue %s: %w", queue, err)
		}
		a.Queued += int64(info.Pending + info.Active + info.Scheduled + info.Retry)
	}
	a.Difference = a.Waiting - a.Queued
	return a, nil
}
