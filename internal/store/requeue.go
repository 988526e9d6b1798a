package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// requeueScript puts a dead letter's notification back on its queue, unless a worker still
// has the job of the last attempt in hand, and deletes the letter. Where that job is on the
// queue, since its worker crashed before it was done with it, the new one takes its place.
// One of a malformed letter's ID is another's. What may be refused comes first: then nothing
// is done.
//
// KEYS  the record, counts, letters; asynq's task, pending, scheduled, retry, archived; the
// queue's idle workers
// ARGV  ID, the letter as it is kept, its state and queue, asynq's message, now (ns), then
// the facts and the outcomes to begin with
var requeueScript = redis.NewScript(WakeIdle + lettersSource + `
local record, counts, letters, task, pending = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id, letter, state = ARGV[1], ARGV[2], ARGV[3]
local job = redis.call('HMGET', task, 'state', 'msg')
if redis.call('HGET', letters, id) ~= letter then
  return job[2] == ARGV[5] and 'requeued' or 'none' -- a reply was lost
end
local malformed, known = state == 'malformed', false
if job[1] == 'active' or malformed and job[2] then return 'in hand' end
if not malformed then known = redis.call('HGET', record, 'state') end
if known and known ~= state then -- it has ended otherwise since, or waits
  forgetLetter(letters, counts, id)
  return 'none'
end
for set = 6, 8 do redis.call('ZREM', KEYS[set], id) end
if job[1] then redis.call('LREM', pending, 0, id) end
redis.call('HINCRBY', counts, state, -1)
local full = redis.pcall('LPUSH', pending, id)
if type(full) == 'table' then
  redis.call('HINCRBY', counts, state, 1)
  return full
end
redis.call('DEL', task) -- what is known of its last visits
redis.call('HSET', task, 'msg', ARGV[5], 'state', 'pending', 'pending_since', ARGV[6])
if not malformed then -- one that was forgotten is known again
  redis.call('HDEL', record, 'ended', 'attempts', 'excused', 'visit', 'first', 'outcomes', 'sent', 'error')
  redis.call('HSET', record, 'state', 'waiting', 'queue', ARGV[4], unpack(ARGV, 7))
  redis.call('HSETNX', record, 'accepted', string.sub(ARGV[6], 1, -7))
  redis.call('PERSIST', record)
end
forgetLetter(letters, counts, id)
wake(KEYS[9])
return 'requeued'
`)

// ErrInHand means that a worker has not put down the job of the last attempt, or that
// another notification's has the ID.
var ErrInHand = errors.New("a job with this ID is there: of the last attempt, or another notification's")

// Requeue puts the letter's notification back on its queue as that job, with a new budget
// of attempts, and deletes the letter. headers are asynq's, and may be nil; facts are what
// the job says of it, nil for one that cannot be read. It returns ErrNoLetter when there is none, or when the notification has
// ended otherwise since, and ErrInHand when it is too early.
func (r *Shard) Requeue(ctx context.Context, l *Letter, job []byte, headers map[string]string, facts *Facts) error {
	keys := []string{
		r.Key("id:" + l.ID), r.Key("counts"), r.Key("letters"),
		r.QueueKey(l.Queue, "t:"+l.ID), r.QueueKey(l.Queue, "pending"), r.QueueKey(l.Queue, "scheduled"),
		r.QueueKey(l.Queue, "retry"), r.QueueKey(l.Queue, "archived"), r.IdleKey(l.Queue),
	}
	args := []any{l.ID, l.text, string(l.State), l.Queue, Message(l.ID, r.Queue(l.Queue), job, headers), time.Now().UnixNano()}
	if facts != nil {
		args = append(args, facts.fields()...)
	}
	if outcomes := reopened(l.Outcomes); outcomes != nil {
		words, _ := encodeOutcomes(outcomes)
		args = append(args, "outcomes", words)
	}
	switch answer, err := requeueScript.Run(ctx, r.client, keys, args...).Text(); {
	case err != nil:
		return fmt.Errorf("requeue: %w", err)
	case answer == "none":
		return ErrNoLetter
	case answer == "in hand":
		return ErrInHand
	}
	return nil
}

// reopened is what is known of the targets of a letter when all are to be sent to
// again: which may have been, nil for none.
func reopened(outcomes []TargetOutcome) []TargetOutcome {
	var known []TargetOutcome
	for i, o := range outcomes {
		if !o.Ambiguous {
			continue
		}
		if known == nil {
			known = make([]TargetOutcome, len(outcomes))
			for j, o := range outcomes {
				known[j] = TargetOutcome{Platform: o.Platform, TokenEnd: o.TokenEnd}
			}
		}
		known[i].Ambiguous = true
	}
	return known
}
