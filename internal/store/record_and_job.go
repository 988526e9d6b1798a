package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/base/redisreply"
)

// A queuedJob is a job as asynq stores it.
type queuedJob struct {
	Envelope
	state, message string
	failures       int
}

// active reports whether a worker has claimed it.
func (j *queuedJob) active() bool { return j.state == "active" }

// JobState returns asynq's state of the notification's job: pending, active, scheduled or retry; ""
// if there is no job.
func (r *Shard) JobState(ctx context.Context, queue, id string) (string, error) {
	state, err := r.client.HGet(ctx, r.QueueKey(queue, "t:"+id), "state").Result()
	if err != nil && !errors.Is(err, redis.Nil) && !redisreply.OfItsKeys(err) {
		return "", fmt.Errorf("read the job: %w", err)
	}
	return state, nil
}

// A recordAndJob is a notification's record and job.
type recordAndJob struct {
	record *Record
	job    *queuedJob // nil if there is none or the notification has ended
	err    error
}

// readRecordsAndJobs reads the records of notifications and the jobs of waiting ones, in three round trips.
// A job's message is empty if its key has the wrong type or the message is too long.
func (r *Shard) readRecordsAndJobs(ctx context.Context, ids []string) []recordAndJob {
	all := make([]recordAndJob, len(ids))
	pipe := r.client.Pipeline()
	records := make([]*redis.MapStringStringCmd, len(ids))
	for i, id := range ids {
		records[i] = pipe.HGetAll(ctx, r.Key("id:"+id))
	}
	_, _ = pipeline.Exec(ctx, pipe) // each command has its own error
	states, sizes, messages := make([]*redis.SliceCmd, len(ids)), make([]*redis.IntCmd, len(ids)), make([]*redis.StringCmd, len(ids))
	pipe = r.client.Pipeline()
	for i := range all {
		s := &all[i]
		if s.record, s.err = readRecord(records[i]); s.err == nil && !s.record.State.Ended() {
			task := r.QueueKey(s.record.Queue, "t:"+ids[i])
			states[i], sizes[i] = pipe.HMGet(ctx, task, "state", "failed"), pipe.HStrLen(ctx, task, "msg")
		}
	}
	_, _ = pipeline.Exec(ctx, pipe)
	pipe = r.client.Pipeline()
	for i := range all {
		s := &all[i]
		if states[i] == nil {
			continue
		}
		switch err := states[i].Err(); {
		case redisreply.OfItsKeys(err):
			s.job = &queuedJob{}
		case err != nil:
			s.err = fmt.Errorf("read the job: %w", err)
		case states[i].Val()[0] != nil:
			its := stringsOf(states[i].Val()[:1])
			s.job = &queuedJob{state: its[0]}
			if failed := stringsOf(states[i].Val()[1:]); len(failed) > 0 {
				s.job.failures, _ = strconv.Atoi(failed[0])
			}
			if size := sizes[i].Val(); size > 0 && size <= MaxEnvelopeSize {
				messages[i] = pipe.HGet(ctx, r.QueueKey(s.record.Queue, "t:"+ids[i]), "msg")
			}
		}
	}
	_, _ = pipeline.Exec(ctx, pipe)
	for i, message := range messages {
		if message == nil {
			continue
		}
		if err := message.Err(); err != nil && !errors.Is(err, redis.Nil) {
			all[i].err = fmt.Errorf("read the job: %w", err)
			continue
		}
		job := all[i].job
		job.message = message.Val()
		job.Envelope, _ = ReadEnvelope(job.message)
	}
	return all
}
