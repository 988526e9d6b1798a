package queue

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
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
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
		for _, p := range []push.Priority{push.Critical, push.Default, push.Bulk} {
			all = append(all, Spot{p.Queue(), state})
		}
	}
	return all
}()

// key is asynq's, of what is there.
func (i *Inspector) key(s Spot) string { return i.shard.QueueKey(s.Queue, s.State.Asynq()) }

// A Waiting job is one that a spot holds.
type Waiting struct {
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
func (i *Inspector) Page(ctx context.Context, s Spot, position uint64) (jobs []Waiting, next uint64, err error) {
	if s.State.isList() {
		left, err := i.client.LLen(ctx, i.key(s)).Result()
		if err != nil {
			return nil, 0, fmt.Errorf("list what waits: %w", err)
		}
		if position > 0 && position < uint64(left) {
			left = int64(position)
		}
		if left == 0 {
			return nil, 0, nil
		}
		ids, err := i.client.LRange(ctx, i.key(s), -left, -max(1, left-PageSize+1)).Result()
		if err != nil {
			return nil, 0, fmt.Errorf("list what waits: %w", err)
		}
		jobs, err = i.read(ctx, s, found(ids))
		return jobs, uint64(max(0, left-PageSize)), err
	}
	pairs, next, err := i.client.ZScan(ctx, i.key(s), position, "", PageSize).Result()
	if err != nil {
		return nil, 0, fmt.Errorf("list what waits: %w", err)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		seconds, _ := strconv.ParseFloat(pairs[i+1], 64) // a score, which is Unix time
		jobs = append(jobs, Waiting{ID: pairs[i], Due: time.Unix(int64(seconds), 0).UTC()})
	}
	jobs, err = i.read(ctx, s, jobs)
	return jobs, next, err
}

// Sample returns about n of a spot's jobs, of which it has so many: of those that are
// due, the ones that came first, and else some at random, all where they are no more.
// It does not say when they come back.
func (i *Inspector) Sample(ctx context.Context, s Spot, size int64, n int) ([]Waiting, error) {
	var ids []string
	var err error
	switch {
	case s.State.isList():
		ids, err = i.client.LRange(ctx, i.key(s), int64(-n), -1).Result()
	case size <= int64(n):
		ids, err = i.client.ZRange(ctx, i.key(s), 0, -1).Result()
	default:
		ids, err = i.client.ZRandMember(ctx, i.key(s), n).Result()
	}
	if err != nil {
		return nil, fmt.Errorf("draw of what waits: %w", err)
	}
	return i.read(ctx, s, found(ids))
}

// parkedScript returns when the first of the parked jobs of each route was accepted, as a text.
// It goes past a hundred that have ended.
//
// KEYS  of each queue the routes of which jobs are parked, and parked: as their sets begin
// ARGV  of each queue the prefix of the tasks' keys
var parkedScript = acknowledged.Reader(redis.NewScript(parkedAs + `
local all = {}
for q = 1, #ARGV do
  local routes = redis.pcall('SMEMBERS', KEYS[2 * q - 1])
  for _, route in ipairs(routes.err and {} or routes) do
    local first = redis.pcall('ZRANGE', KEYS[2 * q] .. route, 0, 99)
    for _, place in ipairs(first.err and {} or first) do
      local accepted, id = string.match(place, '^([^ ]*) (.*)$')
      if id and redis.pcall('HGET', ARGV[q] .. id, 'parked') == parkedAs(route, place) then
        all[#all + 1] = accepted .. 'Z'
        break
      end
    end
  end
end
return all
`))

// OldestDue returns since when the job is due that is due the longest; zero when none is. Of
// each queue, and of each route's parked jobs, it looks at the job that comes next, whatever
// keeps it.
func (i *Inspector) OldestDue(ctx context.Context, now time.Time) (oldest time.Time, err error) {
	pipe := i.client.Pipeline()
	var scores []*redis.ZSliceCmd
	next := map[Spot]*redis.StringSliceCmd{}
	for _, s := range Spots {
		switch s.State {
		case JobPutOff, JobScheduled:
			scores = append(scores, pipe.ZRangeWithScores(ctx, i.key(s), 0, 0))
		case JobPending:
			next[s] = pipe.LRange(ctx, i.key(s), -1, -1)
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
	for _, p := range []push.Priority{push.Critical, push.Default, push.Bulk} {
		keys = append(keys, i.shard.QueueKey(p.Queue(), "parked"), i.shard.QueueKey(p.Queue(), "parked:"))
		tasks = append(tasks, i.shard.QueueKey(p.Queue(), "t:"))
	}
	accepted, err := parkedScript.Run(ctx, i.client, keys, tasks...).StringSlice()
	if err != nil {
		return oldest, fmt.Errorf("look for the oldest job that is parked: %w", err)
	}
	for _, text := range accepted {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			due(at)
		}
	}
	for s, ids := range next {
		at, err := i.pendingSince(ctx, s, ids.Val())
		if err != nil {
			return oldest, err
		}
		due(at)
	}
	return oldest, nil
}

// pendingSince returns since when the job is pending; one that was woken does not say so, and
// is due since it was accepted or may be sent.
func (i *Inspector) pendingSince(ctx context.Context, s Spot, ids []string) (at time.Time, err error) {
	jobs, err := i.read(ctx, s, found(ids))
	if err != nil || len(jobs) == 0 {
		return at, err
	}
	ns, err := i.client.HGet(ctx, i.shard.QueueKey(s.Queue, "t:"+jobs[0].ID), "pending_since").Int64()
	switch {
	case err == nil:
		return time.Unix(0, ns), nil
	case redisreply.Of(err) != redisreply.None:
		return at, err
	}
	job, err := push.Decode([]byte(jobs[0].Payload))
	switch {
	case err != nil: // a worker will set it aside
		return at, nil
	case job.Notification.NotBefore.After(job.AcceptedAt):
		return job.Notification.NotBefore, nil
	}
	return job.AcceptedAt, nil
}

func found(ids []string) []Waiting {
	jobs := make([]Waiting, len(ids))
	for i, id := range ids {
		jobs[i].ID = id
	}
	return jobs
}

// messagesScript returns the messages of jobs, and of each whether it is parked: nothing of
// one that has gone, and an empty one where it is too long, or the key of another type.
//
// KEYS  the tasks
// ARGV  how long a message may be
var messagesScript = acknowledged.Reader(redis.NewScript(readMessage + `
local messages = {}
for i, key in ipairs(KEYS) do
  local message = read(key, tonumber(ARGV[1]))
  messages[2 * i - 1] = type(message) == 'number' and '' or message
  messages[2 * i] = type(message) == 'string' and redis.call('HEXISTS', key, 'parked')
end
return messages
`))

// readAtOnce is how many jobs a command looks into: others are not to wait long for it.
const readAtOnce = 500

// read looks into the jobs. One that has gone since is left out; one that cannot be
// read, which a worker will set aside, is there with nothing but its ID.
func (i *Inspector) read(ctx context.Context, s Spot, jobs []Waiting) (there []Waiting, err error) {
	for some := range slices.Chunk(jobs, readAtOnce) {
		if there, err = i.readSome(ctx, s, some, there); err != nil {
			return nil, err
		}
	}
	return there, nil
}

// readSome adds the jobs to those that are there.
func (i *Inspector) readSome(ctx context.Context, s Spot, jobs, there []Waiting) ([]Waiting, error) {
	keys := make([]string, len(jobs))
	for k, job := range jobs {
		keys[k] = i.shard.QueueKey(s.Queue, "t:"+job.ID)
	}
	messages, err := messagesScript.Run(ctx, i.client, keys, store.MaxEnvelopeSize).Slice()
	if err != nil {
		return nil, fmt.Errorf("look into what waits: %w", err)
	}
	if len(messages) != 2*len(jobs) {
		return nil, errors.New("look into what waits: the answer is cut off")
	}
	for i, job := range jobs {
		if message, ok := messages[2*i].(string); ok {
			envelope, _ := store.ReadEnvelope(message)
			job.Last, job.Payload = readReturn(envelope.Error), envelope.Payload
			if s.State == JobPutOff && messages[2*i+1] == int64(1) {
				job.Last, job.Due = Return{}, time.Time{}
			}
			there = append(there, job)
		}
	}
	return there, nil
}
