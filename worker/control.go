package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
)

// Control is for operators: it looks at the notifications on the queue, and
// takes them from it. Its zero value is not usable.
type Control struct {
	queue     redis.UniversalClient
	records   *push.Records
	limiter   throttle.Limiter
	limits    *throttle.Limits
	inspector *asynq.Inspector
	holds     *Holds
	pauses    *Pauses
}

// NewControl returns a control over the workers' queues, records, limits and
// pauses, which are under the records' prefix.
func NewControl(queue redis.UniversalClient, records *push.Records, limiter throttle.Limiter, limits *throttle.Limits) *Control {
	prefix := records.Prefix()
	return &Control{queue, records, limiter, limits, asynq.NewInspectorFromRedisClient(queue), NewHolds(queue, prefix), NewPauses(queue, prefix)}
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
	return c.take(ctx, id, record, push.Cancelled, func(t taken) error {
		moved, err := c.limiter.Cancel(ctx, throttle.Request{App: t.App, User: t.User, ID: id, Scopes: c.limits.Scopes(t.User, t.Category)})
		if err == nil {
			c.Wake(ctx, moved)
		}
		return err
	})
}

// taken is what has to be known of a notification whose job is gone.
type taken struct {
	App      string `json:"app"`
	User     string `json:"user"`
	Category string `json:"category,omitempty"`
}

// take removes the notification's job from the queue and ends it. slot is called
// for what it holds, unless a provider may have taken it already. The record
// says from before the removal what has to be done, so that a call that broke
// off can be repeated.
func (c *Control) take(ctx context.Context, id string, record *push.Record, state push.State, slot func(taken) error) error {
	info, err := c.inspector.GetTaskInfo(record.Queue, id)
	var t taken
	switch {
	case errors.Is(err, asynq.ErrTaskNotFound), errors.Is(err, asynq.ErrQueueNotFound):
		if record.Taking == "" {
			return c.close(ctx, id, record.Queue, state)
		}
		if err := json.Unmarshal([]byte(record.Taking), &t); err != nil {
			return fmt.Errorf("what was to be done with it: %w", err)
		}
	case err != nil:
		return fmt.Errorf("look for the job: %w", err)
	case info.State == asynq.TaskStateActive:
		return ErrUnderWay
	default:
		if t, err = c.remove(ctx, id, record.Queue, info.Payload); err != nil {
			return err
		}
	}
	// the job is gone, so what the record says now is final
	if record, err = c.records.Lookup(ctx, id); err != nil {
		return err
	}
	if record.State.Ended() {
		return ErrEnded
	}
	end := push.End{State: state, Outcomes: record.Outcomes}
	used := false
	for _, o := range record.Outcomes {
		switch {
		case o.Kind == providers.Delivered.String():
			end.State, used = push.Delivered, true
		case o.Kind == providers.DeadToken.String():
			end.DeadTokens++
		}
		used = used || o.Ambiguous
	}
	if !used {
		if err := slot(t); err != nil {
			return fmt.Errorf("its slot: %w", err)
		}
	}
	first, err := c.records.Settle(ctx, id, end)
	if err == nil && !first {
		return ErrEnded
	}
	return err
}

// close ends a notification that waits and has no job, as none should. Whether
// that is so shows in a second look: a worker may just be done with it.
func (c *Control) close(ctx context.Context, id, queue string, state push.State) error {
	if err := sleep(ctx, time.Second); err != nil {
		return err
	}
	if _, err := c.inspector.GetTaskInfo(queue, id); !errors.Is(err, asynq.ErrTaskNotFound) {
		return ErrUnderWay
	}
	first, err := c.records.Settle(ctx, id, push.End{State: state, Error: "its job was gone"})
	if err == nil && !first {
		return ErrEnded
	}
	return err
}

// remove deletes the job, unless a worker gets it first.
func (c *Control) remove(ctx context.Context, id, queue string, payload []byte) (taken, error) {
	var t taken
	job, err := push.Decode(payload)
	if err != nil {
		return t, fmt.Errorf("the job cannot be read, a worker will set it aside: %w", err)
	}
	t = taken{job.Notification.App, job.Notification.User, job.Notification.Category}
	note, err := json.Marshal(t)
	if err != nil {
		return t, err
	}
	if err := c.records.Taking(ctx, id, string(note)); err != nil {
		return t, err
	}
	if err := c.inspector.DeleteTask(queue, id); err != nil {
		if again, _ := c.inspector.GetTaskInfo(queue, id); again != nil && again.State == asynq.TaskStateActive {
			return t, ErrUnderWay
		}
		return t, fmt.Errorf("take the job from the queue: %w", err)
	}
	return t, nil
}

// A Status is all that is known of a notification.
type Status struct {
	ID string `json:"id"`
	*push.Record
	// Job is where asynq has its job: pending, active, scheduled or retry; empty
	// when it has none.
	Job string `json:"job,omitempty"`
	// Paused are the pauses that keep it, or some of its targets, on the queue.
	Paused []Standing `json:"paused,omitempty"`
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
			if s.Paused, err = c.pausedBy(ctx, info.Payload, record.Outcomes); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// pausedBy answers the pauses that keep a job's notification on the queue.
func (c *Control) pausedBy(ctx context.Context, payload []byte, outcomes []push.TargetOutcome) ([]Standing, error) {
	job, err := push.Decode(payload)
	if err != nil {
		return nil, nil // a worker will set it aside
	}
	list, err := c.Pauses(ctx)
	return slices.DeleteFunc(list, func(s Standing) bool { return !s.matches(job.Notification, outcomes) }), err
}
