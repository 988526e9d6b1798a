package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/acknowledged"
	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/base/shard"
)

// A Spot is one of asynq's collections of waiting jobs, in each shard.
type Spot struct {
	Queue string
	State JobState
}

// Spots lists all spots in the order to search them: a job mostly moves to a later spot.
var Spots = func() (all []Spot) {
	for _, state := range []JobState{JobPutOff, JobScheduled, JobPending, JobActive} {
		for _, queue := range shard.Queues {
			all = append(all, Spot{queue, state})
		}
	}
	return all
}()

// placeKey returns asynq's key of the spot.
func (r *Shard) placeKey(s Spot) string { return r.QueueKey(s.Queue, s.State.Asynq()) }

// A Queued is a job in a spot.
type Queued struct {
	ID      string
	Due     time.Time // when it becomes due; zero if it is due or parked
	Last    Return    // the last Return; parkedReturn for a parked job
	Payload string
}

// PageSize is the approximate number of jobs of a page.
const PageSize = 200

// Page returns a page of the jobs in a spot, and the position of the next page, 0 at the end. Jobs
// that stay in the spot are returned at least once. Jobs that a stopping worker puts back may be
// missed. A list is counted from the end at which jobs leave, so that a removal elsewhere makes
// some jobs appear twice.
func (r *Shard) Page(ctx context.Context, s Spot, position uint64) (jobs []Queued, next uint64, err error) {
	if s.State.isList() {
		left, err := r.client.LLen(ctx, r.placeKey(s)).Result()
		if err != nil {
			return nil, 0, fmt.Errorf("list waiting jobs: %w", err)
		}
		if position > 0 && position < uint64(left) {
			left = int64(position)
		}
		if left == 0 {
			return nil, 0, nil
		}
		ids, err := r.client.LRange(ctx, r.placeKey(s), -left, -max(1, left-PageSize+1)).Result()
		if err != nil {
			return nil, 0, fmt.Errorf("list waiting jobs: %w", err)
		}
		jobs, err = r.readJobs(ctx, s, queuedWithIDs(ids))
		return jobs, uint64(max(0, left-PageSize)), err
	}
	pairs, next, err := r.client.ZScan(ctx, r.placeKey(s), position, "", PageSize).Result()
	if err != nil {
		return nil, 0, fmt.Errorf("list waiting jobs: %w", err)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		seconds, _ := strconv.ParseFloat(pairs[i+1], 64) // a score, which is Unix time
		jobs = append(jobs, Queued{ID: pairs[i], Due: time.Unix(int64(seconds), 0).UTC()})
	}
	jobs, err = r.readJobs(ctx, s, jobs)
	return jobs, next, err
}

// Sample returns about n jobs of a spot that has size jobs, or all if there are fewer: the first
// jobs of a list, random jobs of a sorted set. It does not set Due.
func (r *Shard) Sample(ctx context.Context, s Spot, size int64, n int) ([]Queued, error) {
	var ids []string
	var err error
	switch {
	case s.State.isList():
		ids, err = r.client.LRange(ctx, r.placeKey(s), int64(-n), -1).Result()
	case size <= int64(n):
		ids, err = r.client.ZRange(ctx, r.placeKey(s), 0, -1).Result()
	default:
		ids, err = r.client.ZRandMember(ctx, r.placeKey(s), n).Result()
	}
	if err != nil {
		return nil, fmt.Errorf("sample waiting jobs: %w", err)
	}
	return r.readJobs(ctx, s, queuedWithIDs(ids))
}

// parkedScript returns, for each name with parked jobs, when its first job became due (ns), then
// the name. It skips up to a hundred entries without a job.
//
// KEYS  for each queue the names with parked jobs, and parked: as the prefix of their sets
// ARGV  for each queue the prefix of the tasks' keys
var parkedScript = acknowledged.Reader(redis.NewScript(parkAs + `
local all = {}
for q = 1, #ARGV do
  local routes = redis.pcall('SMEMBERS', KEYS[2 * q - 1])
  for _, route in ipairs(routes.err and {} or routes) do
    local first = redis.pcall('ZRANGE', KEYS[2 * q] .. route, 0, 99)
    for _, place in ipairs(first.err and {} or first) do
      local since, id = string.match(place, '^([^ ]*) (.*)$')
      if id and redis.pcall('HGET', ARGV[q] .. id, 'parked') == parkedAs(route, place) then
        all[#all + 1] = since
        all[#all + 1] = route
        break
      end
    end
  end
end
return all
`))

// OldestDue returns when the oldest due job became due; zero if no job is due. It reads the first
// job of each queue and of each name with parked jobs. It leaves out jobs parked only by names in
// held.
func (r *Shard) OldestDue(ctx context.Context, now time.Time, held map[string]bool) (oldest time.Time, err error) {
	pipe := r.client.Pipeline()
	var scores []*redis.ZSliceCmd
	next := map[Spot]*redis.StringSliceCmd{}
	for _, s := range Spots {
		switch s.State {
		case JobPutOff, JobScheduled:
			scores = append(scores, pipe.ZRangeWithScores(ctx, r.placeKey(s), 0, 0))
		case JobPending:
			next[s] = pipe.LRange(ctx, r.placeKey(s), -1, -1)
		}
	}
	if _, err := pipeline.Exec(ctx, pipe); err != nil {
		return oldest, fmt.Errorf("find the oldest due job: %w", err)
	}
	due := func(at time.Time) {
		if !at.IsZero() && !at.After(now) && (oldest.IsZero() || at.Before(oldest)) {
			oldest = at.UTC()
		}
	}
	for _, score := range scores {
		for _, z := range score.Val() {
			due(time.Unix(int64(z.Score), 0))
		}
	}
	var keys []string
	var tasks []any
	for _, queue := range shard.Queues {
		keys = append(keys, r.QueueKey(queue, "parked"), r.QueueKey(queue, "parked:"))
		tasks = append(tasks, r.QueueKey(queue, "t:"))
	}
	parked, err := parkedScript.Run(ctx, r.client, keys, tasks...).StringSlice()
	if err != nil {
		return oldest, fmt.Errorf("find the oldest parked job: %w", err)
	}
	for pair := range slices.Chunk(parked, 2) {
		isOpen := slices.ContainsFunc(ParkNames(pair[1]), func(name string) bool { return !held[name] })
		if ns, err := strconv.ParseInt(pair[0], 10, 64); err == nil && isOpen {
			due(time.Unix(0, ns))
		}
	}
	for s, ids := range next {
		at, err := r.pendingSince(ctx, s, ids.Val())
		if err != nil {
			return oldest, err
		}
		due(at)
	}
	return oldest, nil
}

// pendingSince returns when the first job of ids became pending; zero if unknown.
func (r *Shard) pendingSince(ctx context.Context, s Spot, ids []string) (at time.Time, err error) {
	if len(ids) == 0 {
		return at, nil
	}
	ns, err := r.client.HGet(ctx, r.QueueKey(s.Queue, "t:"+ids[0]), "pending_since").Int64()
	switch {
	case err == nil:
		return time.Unix(0, ns), nil
	case redisreply.Of(err) != redisreply.None:
		return at, err
	}
	return at, nil
}

func queuedWithIDs(ids []string) []Queued {
	jobs := make([]Queued, len(ids))
	for i, id := range ids {
		jobs[i].ID = id
	}
	return jobs
}

// messagesScript returns each job's message, last Return and field parked: nothing for a job that
// has ended, and an empty message if it is too long or the key has the wrong type.
//
// KEYS  the tasks
// ARGV  the longest message to read
var messagesScript = acknowledged.Reader(redis.NewScript(readMessage + `
local answer = {}
for i, key in ipairs(KEYS) do
  local message = read(key, tonumber(ARGV[1]))
  answer[i] = {}
  if type(message) == 'number' then answer[i] = {'', '', ''}
  elseif message then
    local known = redis.call('HMGET', key, 'last', 'parked')
    answer[i] = {message, known[1] or '', known[2] or ''}
  end
end
return answer
`))

// readBatch is the number of jobs that one command reads, so that it does not block Redis for long.
const readBatch = 500

// readJobs reads the jobs. It leaves out a job that has ended meanwhile. A job that cannot be read,
// which a worker will set aside, has only its ID.
func (r *Shard) readJobs(ctx context.Context, s Spot, jobs []Queued) (there []Queued, err error) {
	for some := range slices.Chunk(jobs, readBatch) {
		if there, err = r.readSome(ctx, s, some, there); err != nil {
			return nil, err
		}
	}
	return there, nil
}

// readSome reads the jobs and appends them to the list.
func (r *Shard) readSome(ctx context.Context, s Spot, jobs, list []Queued) ([]Queued, error) {
	keys := make([]string, len(jobs))
	for k, job := range jobs {
		keys[k] = r.QueueKey(s.Queue, "t:"+job.ID)
	}
	messages, err := messagesScript.Run(ctx, r.client, keys, MaxEnvelopeSize).Slice()
	if err != nil {
		return nil, fmt.Errorf("read waiting jobs: %w", err)
	}
	if len(messages) != len(jobs) {
		return nil, errors.New("read waiting jobs: the answer is incomplete")
	}
	for i, job := range jobs {
		its := stringsOf(messages[i])
		if len(its) == 0 {
			continue
		}
		envelope, _ := ReadEnvelope(its[0])
		job.Last, job.Payload = readReturn(its[1]), envelope.Payload
		if s.State == JobPutOff && its[2] != "" {
			job.Last, job.Due = parkedReturn(its[2], its[1]), time.Time{}
		}
		list = append(list, job)
	}
	return list, nil
}
