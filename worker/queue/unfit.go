package queue

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/push"
)

// An unfit job is one that asynq is not to see: it could not read it, and would
// stop recovering crashed workers' jobs, or would lose it by its options.
type unfit struct {
	queue, id string
	reason    push.MalformedReason
	why       string
	message   string // asynq's; "" when it is not read
}

// unreadJob is one whose message was not read for its length in bytes, or, when
// that is negative, because its key in Redis is of another type.
func unreadJob(queue, id string, length int64) unfit {
	if length < 0 {
		return unfit{queue, id, push.MalformedEnvelope, "the task's key in Redis is not a hash", ""}
	}
	return unfit{queue, id, push.MalformedSize, fmt.Sprintf("the message has %d bytes, at most %d are read; it is not kept", length, push.MaxEnvelopeSize), ""}
}

// unfitFor is why a job cannot be taken whose envelope was read with that error; ""
// when it can.
func unfitFor(e *push.Envelope, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case e.Deadline != 0:
		return "asynq's Deadline is not taken: a notification says expires_at"
	}
	return ""
}

// adopt reads the job's envelope, and reports whether asynq may have it: with the
// options of our Producer's, whoever has put it on the queue.
func (c *client) adopt(ctx context.Context, job *pulled) bool {
	e, err := push.ReadEnvelope(job.message)
	job.back = e.Back
	if err == nil && !e.Foreign() {
		return true
	}
	queue := queueOf(job.keys[0])
	if why := unfitFor(&e, err); why != "" {
		_ = c.setAside(ctx, unfit{queue, job.id, push.MalformedEnvelope, why, job.message})
		return false
	}
	job.foreign, job.message = true, push.Adopted(job.message)
	if strings.HasPrefix(e.UniqueKey, push.QueueKey(queue, "unique:")) {
		// asynq's lock is over when the job is in a worker's hands
		if err := unlockScript.Run(ctx, c.UniversalClient, []string{e.UniqueKey}, job.id).Err(); err != nil {
			c.config.RedisLog.LogAttrs(ctx, slog.LevelWarn, "asynq's lock of a unique task stays until it is over", slog.String("task", job.id), slog.Any("error", err))
		}
	}
	return true
}

// unlockScript ends asynq's lock of a unique task. KEYS the lock; ARGV the task's ID
var unlockScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
`)

// setAside keeps a job that is in hand as a dead letter, and takes it out of
// asynq's sets. After an error, which it logs, the job is found again when its lease
// is over.
func (c *client) setAside(ctx context.Context, job unfit) error {
	letter := &push.Letter{
		ID: job.id, State: push.Malformed, Reason: string(job.reason), Error: job.why,
		At: time.Now().UTC(), Queue: job.queue, Job: []byte(job.message),
	}
	err := c.config.Records.SetAside(ctx, letter)
	if err == nil {
		err = c.takeOut(ctx, job.queue, job.id, true)
	}
	if err != nil {
		c.config.RedisLog.LogAttrs(ctx, slog.LevelWarn, "a job is not set aside yet", slog.String("task", job.id), slog.String("queue", job.queue), slog.Any("error", err))
		return err
	}
	c.config.Log.LogAttrs(ctx, slog.LevelWarn, "job set aside", slog.String("task", job.id), slog.String("queue", job.queue),
		slog.String("reason", string(job.reason)), slog.String("error", job.why))
	c.config.SetAside(letter.State)
	return nil
}

// takeOut takes a job that is in hand out of asynq's sets, and its task away if
// there is one.
func (c *client) takeOut(ctx context.Context, queue, id string, task bool) error {
	pipe := c.TxPipeline()
	pipe.LRem(ctx, push.QueueKey(queue, "active"), 0, id)
	pipe.ZRem(ctx, push.QueueKey(queue, "lease"), id)
	if task {
		pipe.Unlink(ctx, push.QueueKey(queue, "t:"+id))
	}
	_, err := pipe.Exec(ctx)
	return err
}

// queueOf is the queue of one of asynq's keys: asynq:{QUEUE}:….
func queueOf(key string) string {
	_, rest, _ := strings.Cut(key, "{")
	queue, _, _ := strings.Cut(rest, "}")
	return queue
}
