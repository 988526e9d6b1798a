package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// doneScript is asynq's doneCmd for several jobs of a queue, each behind the
// settle of its notification as delivered at its first attempt.
//
// KEYS  asynq's active list, leases, and its counts of the day and in all; counts; then
// of each job asynq's task and the record
// ARGV  end of the day's count; now and retention (ms); which end of the active
// list to look from: -1 for the oldest, 1 for the newest; then of each job its ID,
// the outcomes and the providers' IDs
//
// If ends are reported, the last key is the prefix of the streams. The last arguments are
// then the bound of a stream, the instant, and the targets of each job.
//
// It answers of each job 1, 0 where asynq's answers NOT FOUND, or the error of its
// own record or counts, which keeps it in hand and no other. It begins with what a
// Redis without memory does not refuse, so that it takes the rest too.
var doneScript = redis.NewScript(reportSource + `
redis.call('ZREM', KEYS[2], '')
local counts = KEYS[5]
local function settle(record, outcomes, sent)
  local known = redis.pcall('HMGET', record, 'state', 'accepted', 'until')
  if known.err then return false, known.err end
  local state, accepted = known[1], known[2] or ARGV[2]
  if state and state ~= 'waiting' then return end
  local counted = redis.pcall('HINCRBY', counts, 'delivered', 1)
  if type(counted) == 'table' then return false, counted.err end
  if state ~= 'waiting' then
    counted = redis.pcall('HINCRBY', counts, 'accepted', 1)
    if type(counted) == 'table' then
      redis.call('HINCRBY', counts, 'delivered', -1)
      return false, counted.err
    end
  end
  redis.call('HSET', record, 'state', 'delivered', 'accepted', accepted, 'ended', ARGV[2], 'attempts', 1, 'outcomes', outcomes, 'sent', sent)
  if known[3] then
    redis.call('HDEL', record, 'until', 'scope', 'rule')
    redis.pcall('HINCRBY', counts, 'booked', -1)
  end
  local left = ARGV[3] - math.max(0, ARGV[2] - accepted)
  redis.call('PEXPIRE', record, string.format('%.0f', math.max(left, 3600000)))
  return true
end
local n = math.floor((#KEYS - 5) / 2)
local streams, tail = KEYS[6 + 2 * n], 4 + 3 * n
local function tell(i)
  local of = redis.call('HGET', KEYS[2 * i + 5], 'of') or '\n\n\n'
  local app, user, category = string.match(of, '^(.-)\n(.-)\n(.-)\n')
  report(streams, tonumber(ARGV[tail + 1]), counts, 'outcomes', app, {'id', ARGV[3 * i + 2], 'app', app, 'user', user, 'category', category,
    'state', 'delivered', 'reason', '', 'attempts', 1, 'at', ARGV[tail + 2], 'targets', ARGV[tail + 2 + i]})
end
local answers, done = {}, 0
for i = 1, n do
  local task, id = KEYS[2 * i + 4], ARGV[3 * i + 2]
  local ended, problem = settle(KEYS[2 * i + 5], ARGV[3 * i + 3], ARGV[3 * i + 4])
  if ended and streams then tell(i) end
  if problem then
    answers[i] = problem
  elseif redis.call('LREM', KEYS[1], ARGV[4], id) > 0 and redis.call('ZREM', KEYS[2], id) > 0 and redis.call('DEL', task) > 0 then
    answers[i] = 1
    done = done + 1
  else
    answers[i] = 0
  end
end
if done > 0 then
  if redis.pcall('INCRBY', KEYS[3], done) == done then redis.call('EXPIREAT', KEYS[3], ARGV[1]) end
  redis.pcall('INCRBY', KEYS[4], done)
end
return answers
`)

// Dones are jobs of one queue that are done, each with its notification delivered
// at the first attempt. They end in one step, and doing so again changes nothing.
// It is for one goroutine at a time.
type Dones struct {
	records *Shard
	keys    []string
	args    []any
	targets []any // of each job in JSON, where ends are told of
}

// NewDones takes the keys and arguments that asynq gives its script for a job that
// is done, of any of the jobs.
func (r *Shard) NewDones(keys []string, args []any) *Dones {
	return &Dones{
		records: r, keys: []string{keys[0], keys[1], keys[3], keys[4], r.Key("counts")},
		args: []any{args[1], nil, r.retention.Milliseconds(), nil},
	}
}

// Add adds a job: its ID, its key, and what became of its notification's targets.
func (d *Dones) Add(id, task string, outcomes []TargetOutcome) {
	words, ids := encodeOutcomes(outcomes)
	d.keys = append(d.keys, task, d.records.Key("id:"+id))
	d.args = append(d.args, id, words, ids)
	if d.records.tells() {
		targets, _ := targetsText(outcomes) // of strings, which never fails
		d.targets = append(d.targets, targets)
	}
}

// Len is how many there are.
func (d *Dones) Len() int { return (len(d.args) - 4) / 3 }

// Command is what ends them, to be sent. young says that they are likely to be among the
// newest of those in hand, since older ones are stuck: they are looked for from
// that end.
func (d *Dones) Command(ctx context.Context, young bool) *redis.Cmd {
	d.args[1], d.args[3] = time.Now().UnixMilli(), -1
	if young {
		d.args[3] = 1
	}
	keys, args := d.call()
	return doneScript.EvalSha(ctx, d.records.client.Pipeline(), keys, args...) // of a pipeline that is not sent
}

// call is what the script is called with.
func (d *Dones) call() (keys []string, args []any) {
	if d.targets == nil {
		return d.keys, d.args
	}
	now, _ := d.args[1].(int64)
	return append(slices.Clip(d.keys), d.records.Key(outcomesName)), append(append(slices.Clip(d.args), d.records.bounds.Outcomes, written(time.UnixMilli(now))), d.targets...)
}

// Read reads the answer to the Command, which it repeats for a server that does
// not know the script. It answers of each job nil, ErrNotInHand, or what is wrong
// with its record.
func (d *Dones) Read(ctx context.Context, cmd *redis.Cmd) ([]error, error) {
	if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		keys, args := d.call()
		cmd = doneScript.Eval(ctx, d.records.client, keys, args...)
	}
	reply, err := cmd.Slice()
	if err != nil {
		return nil, err
	}
	if len(reply) != d.Len() {
		return nil, fmt.Errorf("%d jobs are done, and %d answered for", d.Len(), len(reply))
	}
	problems := make([]error, len(reply))
	for i, answer := range reply {
		switch answer := answer.(type) {
		case string:
			problems[i] = fmt.Errorf("record of a notification: %s", answer)
		case int64:
			if answer == 0 {
				problems[i] = ErrNotInHand
			}
		}
	}
	return problems, nil
}

// ErrNotInHand is what asynq's script answers for a job that is not in hand, or no
// longer.
var ErrNotInHand = errors.New("NOT FOUND")
