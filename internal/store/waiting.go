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

// Spots are all of them, in the order in which they are to be looked through: a job
// mostly moves to one that comes later.
var Spots = func() (all []Spot) {
	for _, state := range []JobState{JobPutOff, JobScheduled, JobPending, JobActive} {
		for _, queue := range shard.Queues {
			all = append(all, Spot{queue, state})
		}
	}
	return all
}()

// key is asynq's, of what is there.
func (r *Shard) placeKey(s Spot) string { return r.QueueKey(s.Queue, s.State.Asynq()) }

// A Queued job is one that a spot holds.
type Queued struct {
	ID      string
	Due     time.Time // when it comes back; zero when it is due or parked
	Last    Return    // zero when it is parked
	Payload string
}

// PageSize is how many jobs a page has, about.
const PageSize = 200

// Page returns a page of the jobs that a spot holds, and where the next one
// begins, 0 at the end. What stays there meanwhile is not missed, but for what a
// worker that stops puts back: a sorted set is scanned, and of a list what is left
// is counted from the end that jobs leave at, so that what is taken from anywhere
// has some come twice.
func (r *Shard) Page(ctx context.Context, s Spot, position uint64) (jobs []Queued, next uint64, err error) {
	if s.State.isList() {
		left, err := r.client.LLen(ctx, r.placeKey(s)).Result()
		if err != nil {
			return nil, 0, fmt.Errorf("list what waits: %w", err)
		}
		if position > 0 && position < uint64(left) {
			left = int64(position)
		}
		if left == 0 {
			return nil, 0, nil
		}
		ids, err := r.client.LRange(ctx, r.placeKey(s), -left, -max(1, left-PageSize+1)).Result()
		if err != nil {
			return nil, 0, fmt.Errorf("list what waits: %w", err)
		}
		jobs, err = r.readJobs(ctx, s, found(ids))
		return jobs, uint64(max(0, left-PageSize)), err
	}
	pairs, next, err := r.client.ZScan(ctx, r.placeKey(s), position, "", PageSize).Result()
	if err != nil {
		return nil, 0, fmt.Errorf("list what waits: %w", err)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		seconds, _ := strconv.ParseFloat(pairs[i+1], 64) // a score, which is Unix time
		jobs = append(jobs, Queued{ID: pairs[i], Due: time.Unix(int64(seconds), 0).UTC()})
	}
	jobs, err = r.readJobs(ctx, s, jobs)
	return jobs, next, err
}

// Sample returns about n of a spot's jobs, of which it has so many: of those that are
// due, the ones that came first, and else some at random, all where they are no more.
// It does not say when they come back.
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
		return nil, fmt.Errorf("draw of what waits: %w", err)
	}
	return r.readJobs(ctx, s, found(ids))
}

// parkedScript returns of each name by which jobs are parked when the first of them became due
// (ns), then the name.
// It goes past a hundred that have ended.
//
// KEYS  of each queue the names by which jobs are parked, and parked: as their sets begin
// ARGV  of each queue the prefix of the tasks' keys
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

// OldestDue returns since when the job is due that is due the longest; zero when none is. Of
// each queue, and of the jobs parked by each name, it looks at the job that comes next. It leaves
// out jobs parked by names that are all held.
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
		return oldest, fmt.Errorf("look for the oldest job that is due: %w", err)
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
		return oldest, fmt.Errorf("look for the oldest job that is parked: %w", err)
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

// pendingSince returns since when the job is pending; zero where it does not say so.
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

func found(ids []string) []Queued {
	jobs := make([]Queued, len(ids))
	for i, id := range ids {
		jobs[i].ID = id
	}
	return jobs
}

// messagesScript returns of each job its message, its last Return and whether it is parked:
// nothing of one that has gone, and an empty message where it is too long, or the key of
// another type.
//
// KEYS  the tasks
// ARGV  how long a message may be
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

// readAtOnce is how many jobs a command looks into: others are not to wait long for it.
const readAtOnce = 500

// read looks into the jobs. One that has gone since is left out; one that cannot be
// read, which a worker will set aside, is there with nothing but its ID.
func (r *Shard) readJobs(ctx context.Context, s Spot, jobs []Queued) (there []Queued, err error) {
	for some := range slices.Chunk(jobs, readAtOnce) {
		if there, err = r.readSome(ctx, s, some, there); err != nil {
			return nil, err
		}
	}
	return there, nil
}

// readSome adds the jobs to those that are there.
func (r *Shard) readSome(ctx context.Context, s Spot, jobs, there []Queued) ([]Queued, error) {
	keys := make([]string, len(jobs))
	for k, job := range jobs {
		keys[k] = r.QueueKey(s.Queue, "t:"+job.ID)
	}
	messages, err := messagesScript.Run(ctx, r.client, keys, MaxEnvelopeSize).Slice()
	if err != nil {
		return nil, fmt.Errorf("look into what waits: %w", err)
	}
	if len(messages) != len(jobs) {
		return nil, errors.New("look into what waits: the answer is cut off")
	}
	for i, job := range jobs {
		its := texts(messages[i])
		if len(its) == 0 {
			continue
		}
		envelope, _ := ReadEnvelope(its[0])
		job.Last, job.Payload = readReturn(its[1]), envelope.Payload
		if s.State == JobPutOff && its[2] != "" {
			job.Last, job.Due = parkedReturn(its[2], its[1]), time.Time{}
		}
		there = append(there, job)
	}
	return there, nil
}
