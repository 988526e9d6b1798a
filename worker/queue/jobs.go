package queue

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/asynqwire"
)

// A JobState is where a job is on asynq's queue, from a closed set.
type JobState string

// The states of a job.
const (
	JobPending   JobState = "pending"   // due
	JobActive    JobState = "active"    // in a worker's hands
	JobScheduled JobState = "scheduled" // to be sent later, as its producer said
	JobPutOff    JobState = "put_off"   // asynq's retry: until a slot, another attempt, or a provider is ready
	JobArchived  JobState = "archived"  // asynq gave it up, as it never should
)

// Asynq is asynq's word for it, which names its key of such jobs.
func (s JobState) Asynq() string {
	if s == JobPutOff {
		return "retry"
	}
	return string(s)
}

// jobState reads asynq's word.
func jobState(word string) JobState {
	if word == JobPutOff.Asynq() {
		return JobPutOff
	}
	return JobState(word)
}

var jobStates = []JobState{JobPending, JobActive, JobScheduled, JobPutOff, JobArchived}

// isList reports whether the state's jobs are in a list, else they are in a sorted
// set by instant.
func (s JobState) isList() bool { return s == JobPending || s == JobActive }

// ReadJobs counts the jobs of each of our queues by their state. Each count is
// one step for Redis, however many there are.
func (i *Inspector) ReadJobs(ctx context.Context) (map[string]map[JobState]int64, error) {
	pipe := i.client.Pipeline()
	jobs := i.JobsOn(ctx, pipe)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("count the jobs: %w", err)
	}
	return jobs(), nil
}

// JobsOn is ReadJobs on a pipe, whose answers are there when it was executed.
func (i *Inspector) JobsOn(ctx context.Context, pipe redis.Pipeliner) func() map[string]map[JobState]int64 {
	counts := map[string][]*redis.IntCmd{}
	for queue := range asynqwire.Queues() {
		for _, s := range jobStates {
			count := pipe.ZCard
			if s.isList() {
				count = pipe.LLen
			}
			counts[queue] = append(counts[queue], count(ctx, i.shard.QueueKey(queue, s.Asynq())))
		}
	}
	return func() map[string]map[JobState]int64 {
		jobs := make(map[string]map[JobState]int64, len(counts))
		for queue, all := range counts {
			jobs[queue] = make(map[JobState]int64, len(all))
			for i, count := range all {
				jobs[queue][jobStates[i]] = count.Val()
			}
		}
		return jobs
	}
}
