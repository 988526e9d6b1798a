package store

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/acknowledged"
	"github.com/pushpace/pushpace/internal/base/shard"
)

// A Place is where a job is on its queue.
type Place struct {
	// State is one of the JobStates, or a different word of asynq.
	State   JobState
	Payload []byte
	// Orphaned is true if the worker that has claimed the job sends no heartbeat.
	Orphaned bool
	// Last is the job's last Return (parkedReturn for a parked job) and Back its instant; zero if
	// the job never returned.
	Last Return
	Back time.Time
	// Due is when the delayed job becomes due; zero if it is due or parked.
	Due time.Time
}

// findScript returns a job's state and message, when it becomes due, 1 if it is claimed by a worker
// without heartbeat, its field parked, its last Return and when that was; nothing if there is no
// job.
//
// KEYS  task, scheduled, retry, due, signs
// ARGV  ID
var findScript = acknowledged.Reader(redis.NewScript(`
local job = redis.call('HMGET', KEYS[1], 'state', 'msg', 'parked', 'worker', 'last', 'back')
if not job[1] then return {} end
local sets, at = {scheduled = KEYS[2], retry = KEYS[3]}, false
if sets[job[1]] then
  at = redis.call('ZSCORE', sets[job[1]], ARGV[1])
  local due = at and redis.call('ZSCORE', KEYS[4], ARGV[1])
  if due then at = string.format('%.6f', due / 1000000) end
end
local term = string.match(job[4] or '', '^[^/]*')
local over = job[1] == 'active' and tonumber(redis.call('ZSCORE', KEYS[5], term) or 0) == 0
local parked = job[1] == 'retry' and job[3]
return {job[1], job[2] or '', at or '0', over and '1' or '', parked or '', job[5] or '', job[6] or ''}
`))

// Find returns a job's place; nil if it is on no queue.
func (r *Shard) Find(ctx context.Context, queue, id string) (*Place, error) {
	keys := append(r.queueKeys(queue, "t:"+id, "scheduled", "retry", "due"), r.Key("signs"))
	found, err := findScript.Run(ctx, r.client, keys, id).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("read the job: %w", err)
	}
	if len(found) == 0 {
		return nil, nil
	}
	envelope, _ := ReadEnvelope(found[1]) // an unreadable job is set aside when it is pulled
	p := &Place{State: jobState(found[0]), Payload: []byte(envelope.Payload), Last: readReturn(found[5]), Back: instantOfMicros(found[6])}
	p.Orphaned = found[3] != ""
	if found[4] != "" {
		p.Last = parkedReturn(found[4], found[5])
		return p, nil
	}
	if seconds, _ := strconv.ParseFloat(found[2], 64); seconds > 0 && p.State != JobActive {
		p.Due = time.UnixMicro(int64(seconds * 1e6))
	}
	return p, nil
}

// States returns the states of jobs by ID; queues gives the queue of each ID. Jobs that are on no
// queue are left out. It makes one round trip.
func (r *Shard) States(ctx context.Context, queues map[string]string) (map[string]JobState, error) {
	if len(queues) == 0 {
		return nil, nil
	}
	pipe := r.client.Pipeline()
	found := make(map[string]*redis.SliceCmd, len(queues))
	for id, queue := range queues {
		found[id] = pipe.HMGet(ctx, r.QueueKey(queue, "t:"+id), "state")
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("read the jobs: %w", err)
	}
	states := make(map[string]JobState, len(found))
	for id, job := range found {
		if word, there := job.Val()[0].(string); there {
			states[id] = jobState(word)
		}
	}
	return states, nil
}

// A JobState is a job's state on asynq's queue, from a closed set.
type JobState string

// The states of a job.
const (
	JobPending   JobState = "pending"   // due
	JobActive    JobState = "active"    // claimed by a worker
	JobScheduled JobState = "scheduled" // delayed by its producer
	JobPutOff    JobState = "put_off"   // asynq's retry: deferred, retried or parked
	JobArchived  JobState = "archived"  // given up by asynq, which should not happen
)

// Asynq returns asynq's word for the state, which also names the key of such jobs.
func (s JobState) Asynq() string {
	if s == JobPutOff {
		return "retry"
	}
	return string(s)
}

func jobState(word string) JobState {
	if word == JobPutOff.Asynq() {
		return JobPutOff
	}
	return JobState(word)
}

var jobStates = []JobState{JobPending, JobActive, JobScheduled, JobPutOff, JobArchived}

// isList reports whether Redis has the state's jobs in a list, rather than in a sorted set by
// instant.
func (s JobState) isList() bool { return s == JobPending || s == JobActive }

// Jobs are the numbers of jobs, by queue and state.
type Jobs map[string]map[JobState]int64

// SumJobs adds the numbers of all shards.
func SumJobs(all map[int]Jobs) Jobs {
	sum := Jobs{}
	for _, queue := range shard.Queues {
		sum[queue] = map[JobState]int64{}
		for _, jobs := range all {
			for state, n := range jobs[queue] {
				sum[queue][state] += n
			}
		}
	}
	return sum
}

// ReadJobs counts the jobs of each shard, by its number. Each count takes Redis constant time.
func ReadJobs(ctx context.Context, client redis.UniversalClient, records *Records) (map[int]Jobs, error) {
	return Each(ctx, records, func(ctx context.Context, s *Shard) (Jobs, error) {
		pipe := client.Pipeline()
		counts := s.JobsOn(ctx, pipe)
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, fmt.Errorf("count the jobs: %w", err)
		}
		return counts(), nil
	})
}

// JobsOn adds the commands that count the shard's jobs to pipe. Call the returned function after
// pipe was executed.
func (r *Shard) JobsOn(ctx context.Context, pipe redis.Pipeliner) func() Jobs {
	counts := map[string][]*redis.IntCmd{}
	for _, queue := range shard.Queues {
		for _, s := range jobStates {
			count := pipe.ZCard
			if s.isList() {
				count = pipe.LLen
			}
			counts[queue] = append(counts[queue], count(ctx, r.QueueKey(queue, s.Asynq())))
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
