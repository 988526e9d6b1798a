package queue

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/acknowledged"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/store"
)

// An Inspector looks at the jobs on a shard's queues. It is safe for concurrent use.
type Inspector struct {
	client redis.UniversalClient
	shard  shard.Shard
}

// NewInspector returns an inspector of the shard on the client.
func NewInspector(client redis.UniversalClient, of shard.Shard) *Inspector {
	return &Inspector{client, of}
}

// A Place is where asynq has a job.
type Place struct {
	// State is one of ours, or a word of asynq's.
	State   JobState
	Payload []byte
	// Orphaned says that the lease is over of the worker that had the job in hand.
	Orphaned bool
	// Last is the job's last Return, zero for one that is parked, and Back when that was; zero
	// when it has not returned.
	Last Return
	Back time.Time
	// Due is when it comes back; zero for one that is due or parked.
	Due time.Time
}

// findScript returns a job's state and message, when it comes back, or its lease ends,
// whether its lease is over, and whether it is parked; nothing where there is no job.
//
// KEYS  task, scheduled, retry, lease, and when delayed jobs are due
// ARGV  ID
var findScript = acknowledged.Reader(redis.NewScript(`
local job = redis.call('HMGET', KEYS[1], 'state', 'msg', 'parked')
if not job[1] then return {} end
local sets, at = {scheduled = KEYS[2], retry = KEYS[3], active = KEYS[4]}, false
if sets[job[1]] then at = redis.call('ZSCORE', sets[job[1]], ARGV[1]) end
local due = at and job[1] ~= 'active' and redis.call('ZSCORE', KEYS[5], ARGV[1])
if due then at = string.format('%.6f', due / 1000000) end
local over = job[1] == 'active' and tonumber(at or 0) < tonumber(redis.call('TIME')[1])
local parked = job[1] == 'retry' and job[3]
return {job[1], job[2] or '', at or '0', over and '1' or '', parked or ''}
`))

// Find returns where a job is; nil when it is on no queue.
func (i *Inspector) Find(ctx context.Context, queue, id string) (*Place, error) {
	var keys []string
	for _, name := range []string{"t:" + id, "scheduled", "retry", "lease", "due"} {
		keys = append(keys, i.shard.QueueKey(queue, name))
	}
	found, err := findScript.Run(ctx, i.client, keys, id).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("look for the job: %w", err)
	}
	if len(found) == 0 {
		return nil, nil
	}
	envelope, _ := store.ReadEnvelope(found[1]) // what cannot be read is set aside when it is pulled
	p := &Place{State: jobState(found[0]), Payload: []byte(envelope.Payload), Last: readReturn(envelope.Error), Back: envelope.Back}
	p.Orphaned = found[3] != ""
	if found[4] != "" {
		p.Last = Return{}
		return p, nil
	}
	if seconds, _ := strconv.ParseFloat(found[2], 64); seconds > 0 && p.State != JobActive {
		p.Due = time.UnixMicro(int64(seconds * 1e6))
	}
	return p, nil
}

// States returns where the jobs are, by ID, which queues names the queue of each by;
// those that are on none are left out. It makes one round trip.
func (i *Inspector) States(ctx context.Context, queues map[string]string) (map[string]JobState, error) {
	if len(queues) == 0 {
		return nil, nil
	}
	pipe := i.client.Pipeline()
	found := make(map[string]*redis.SliceCmd, len(queues))
	for id, queue := range queues {
		found[id] = pipe.HMGet(ctx, i.shard.QueueKey(queue, "t:"+id), "state")
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("look for the jobs: %w", err)
	}
	states := make(map[string]JobState, len(found))
	for id, job := range found {
		if word, there := job.Val()[0].(string); there {
			states[id] = jobState(word)
		}
	}
	return states, nil
}

// WakeJob is Lua. wakeJob makes a delayed job of the queue due at that instant (µs), if that is
// earlier, or at once without an instant. The queue has the keys retry, pending, due and idle, and
// the prefix of its tasks. It returns 'due', 'parked' for a parked job, which only a call without
// an instant moves, 'in hand' for one that a worker has, and nil for any other.
const WakeJob = store.WakeIdle + `
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local function wakeJob(queue, id, at)
  local key = queue.tasks .. id
  if at and redis.pcall('HEXISTS', key, 'parked') == 1 then return 'parked' end
  if at and at > now and redis.call('ZSCORE', queue.retry, id) then
    local due = tonumber(redis.call('ZSCORE', queue.due, id) or redis.call('ZSCORE', queue.retry, id) * 1000000)
    if due <= at then return 'due' end
    redis.call('ZADD', queue.due, string.format('%.0f', at), id)
    redis.call('ZADD', queue.retry, math.ceil(at / 1000000), id)
    if at < now + soon then wake(queue.idle) end
    return 'due'
  elseif redis.call('ZREM', queue.retry, id) == 1 then
    local full = redis.pcall(at and 'RPUSH' or 'LPUSH', queue.pending, id) -- a slot is a turn
    if type(full) == 'table' then -- it is no list
      redis.call('ZADD', queue.retry, 0, id)
      return nil
    end
    redis.call('ZREM', queue.due, id)
    redis.pcall('HSET', key, 'state', 'pending')
    wake(queue.idle)
    return 'due'
  elseif redis.pcall('HGET', key, 'state') == 'active' then
    return 'in hand'
  end
end
`

// wakeScript wakes jobs. It writes each instant to the record of its notification, as until. It
// returns the jobs that are active.
//
// KEYS  retry, pending, due, the idle
// ARGV  prefix of the tasks' keys, and of the records'; of each its ID and when it is to be due
// (µs), 0 for now
var wakeScript = redis.NewScript(WakeJob + `
local queue, awake = {retry = KEYS[1], pending = KEYS[2], due = KEYS[3], idle = KEYS[4], tasks = ARGV[1]}, {}
for i = 3, #ARGV, 2 do
  local id, at = ARGV[i], tonumber(ARGV[i + 1])
  local became = wakeJob(queue, id, at > 0 and at or nil)
  if became == 'in hand' then awake[#awake + 1] = id end
  if became == 'due' and at > 0 and redis.pcall('HEXISTS', ARGV[2] .. id, 'until') == 1 then
    redis.call('HSET', ARGV[2] .. id, 'until', math.floor(at / 1000))
  end
end
return awake
`)

// A Wake is a job that is to be due at that instant, or at once.
type Wake struct {
	ID string
	At time.Time // zero for at once
}

// WakeAll makes delayed jobs due earlier, and returns the IDs of those that a worker has in hand.
func (i *Inspector) WakeAll(ctx context.Context, queue string, all []Wake) (inHand []string, err error) {
	args := []any{i.shard.QueueKey(queue, "t:"), i.shard.Key("id:")}
	for _, w := range all {
		at := int64(0)
		if !w.At.IsZero() {
			at = w.At.UnixMicro()
		}
		args = append(args, w.ID, at)
	}
	keys := []string{i.shard.QueueKey(queue, "retry"), i.shard.QueueKey(queue, "pending"), i.shard.QueueKey(queue, "due"), i.shard.IdleKey(queue)}
	return wakeScript.Run(ctx, i.client, keys, args...).StringSlice()
}

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
	for queue := range shard.Queues() {
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
func ReadJobs(ctx context.Context, client redis.UniversalClient, records *store.Records) (map[int]Jobs, error) {
	return store.Each(ctx, records, func(ctx context.Context, s *store.Shard) (Jobs, error) {
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
	for queue := range shard.Queues() {
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
