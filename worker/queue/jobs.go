package queue

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/asynqwire"
	"github.com/pushpace/pushpace/internal/base/ledger"
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

// Jobs are how many there are on each of our queues, by their state.
type Jobs map[string]map[JobState]int64

// Sum is how many there are of all shards together.
func Sum(all map[int]Jobs) Jobs {
	sum := Jobs{}
	for queue := range asynqwire.Queues() {
		sum[queue] = map[JobState]int64{}
		for _, jobs := range all {
			for state, n := range jobs[queue] {
				sum[queue][state] += n
			}
		}
	}
	return sum
}

// ReadJobs counts the jobs of each shard, by its number. Each count is one step for Redis,
// however many there are.
func ReadJobs(ctx context.Context, client redis.UniversalClient, records *ledger.Records) (map[int]Jobs, error) {
	return ledger.Each(ctx, records, func(ctx context.Context, s *ledger.Shard) (Jobs, error) {
		pipe := client.Pipeline()
		counts := NewInspector(client, s.Shard).JobsOn(ctx, pipe)
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, fmt.Errorf("count the jobs: %w", err)
		}
		return counts(), nil
	})
}

// JobsOn counts the shard's jobs on a pipe: the answers are there when it was executed.
func (i *Inspector) JobsOn(ctx context.Context, pipe redis.Pipeliner) func() Jobs {
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
	return func() Jobs {
		jobs := make(Jobs, len(counts))
		for queue, all := range counts {
			jobs[queue] = make(map[JobState]int64, len(all))
			for i, count := range all {
				jobs[queue][jobStates[i]] = count.Val()
			}
		}
		return jobs
	}
}
