package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/store"
)

// readMessage has read return a task's message, or false for none. Of one that is not
// read it is the length, and of a key of another type -1. While a Cluster's slot moves, a task
// may be on another master than what names it: then the script breaks off. pullScript, which
// would have changed something by then, is not run meanwhile.
const readMessage = `
local function read(key, longest)
  local length = redis.pcall('HSTRLEN', key, 'msg')
  if type(length) == 'table' then
    if string.find(length.err, 'WRONGTYPE', 1, true) then return -1 end
    length = redis.call('HSTRLEN', key, 'msg')
  end
  if length > longest then return length end
  return redis.call('HGET', key, 'msg')
end
`

// read reads what a script returns of each job, its ID and what readMessage has of
// it. It returns the jobs that asynq may have; the others it sets aside, until an error.
func (c *client) read(ctx context.Context, queue string, reply []any) (jobs []pulled, err error) {
	setAside := func(id string, reason store.MalformedReason, why, message string) {
		if err == nil {
			err = c.setAside(ctx, queue, id, reason, why, message)
		}
	}
	for i := 0; i+1 < len(reply); i += 2 {
		job := pulled{Job: Job{Queue: queue}}
		job.ID, _ = reply[i].(string)
		job.message, _ = reply[i+1].(string)
		if length, unread := reply[i+1].(int64); unread && length >= 0 {
			setAside(job.ID, store.MalformedSize, fmt.Sprintf("the message has %d bytes, at most %d are read; it is not kept", length, store.MaxEnvelopeSize), "")
		} else if unread {
			setAside(job.ID, store.MalformedEnvelope, "the task's key in Redis is not a hash", "")
		} else if malformed := job.open(); malformed != nil {
			setAside(job.ID, malformed.Reason, malformed.Err.Error(), job.message)
		} else {
			jobs = append(jobs, job)
		}
	}
	return jobs, err
}

// open reads the job's envelope. It returns why asynq is not to see the job, nil when it
// may: of what it cannot read it would stop recovering crashed workers' jobs, and by
// options that are not our Producer's it could lose the job.
func (job *pulled) open() *store.MalformedError {
	e, err := store.ReadEnvelope(job.message)
	job.Payload, job.Headers, job.Retries = []byte(e.Payload), e.Headers, e.Retried
	job.Back, job.Last = e.Back, readReturn(e.Error)
	switch {
	case err != nil:
		return &store.MalformedError{Reason: store.MalformedEnvelope, Err: err}
	case e.Foreign():
		return &store.MalformedError{Reason: store.MalformedForeign, Err: errForeign}
	}
	return nil
}

var errForeign = errors.New("no push.Producer has put the task on the queue: its type or its options are others")

// setAside keeps a job that is in hand as a dead letter, and takes it out of
// asynq's sets. After an error, which it logs, the job is found again when its lease
// is over.
func (c *client) setAside(ctx context.Context, queue, id string, reason store.MalformedReason, why, message string) error {
	letter := &store.Letter{
		ID: id, State: store.Malformed, Reason: string(reason), Error: why,
		At: time.Now().UTC(), Queue: queue, Job: []byte(message),
	}
	err := c.config.Records.SetAside(ctx, letter)
	if err == nil {
		_, err = c.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.LRem(ctx, c.shard.QueueKey(queue, "active"), 0, id)
			pipe.ZRem(ctx, c.shard.QueueKey(queue, "lease"), id)
			pipe.Unlink(ctx, c.shard.QueueKey(queue, "t:"+id))
			return nil
		})
	}
	if err != nil {
		c.repeats.Tell(ctx, c.config.RedisLog, slog.LevelWarn, "a job is not set aside yet", nil, slog.String("task", id), slog.String("queue", queue), slog.Any("error", err))
		return err
	}
	c.repeats.Tell(ctx, c.config.Log, slog.LevelWarn, "job set aside", []slog.Attr{slog.String("reason", letter.Reason)},
		slog.String("task", id), slog.String("queue", queue), slog.String("error", why))
	c.config.SetAside(letter.State)
	return nil
}
