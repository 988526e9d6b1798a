package worker

import (
	"errors"

	"github.com/pushpace/pushpace/internal/base/asynqwire"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/queue"
)

// decode reads the job.
func decode(job *queue.Job) (*delivery, error) {
	decoded, err := push.Decode(job.Payload)
	if err != nil {
		return nil, err
	}
	if job.ID != decoded.Notification.ID {
		return nil, &asynqwire.MalformedError{Reason: asynqwire.MalformedNotification, Err: errors.New("the task has another ID than its notification")}
	}
	return &delivery{
		Notification: decoded.Notification, accepted: decoded.AcceptedAt, back: job.Back, slot: job.Last.Wanted, job: job.Payload, queue: job.Queue, visits: job.Retries, term: job.Term, at: job.At,
		replay:   decoded.Replay,
		outcomes: make([]outcome, len(decoded.Notification.Targets)),
		held:     job.Last.Why != "" && job.Last.Why != queue.Deferred,
	}, nil
}
