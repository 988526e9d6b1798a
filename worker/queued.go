package worker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/push"
)

// A Queued is a notification that waits, as the queue tells of it.
type Queued struct {
	ID          string `json:"id"`
	App         string `json:"app"`
	User        string `json:"user"`
	Category    string `json:"category,omitempty"`
	CollapseKey string `json:"collapse_key,omitempty"`
	// For is what it waits for, and Until the instant at which it comes back or,
	// when a limit has put it off, its slot; zero when there is none.
	For   Cause     `json:"for"`
	Until time.Time `json:"until,omitzero"`
	// Scope and Rule tell of the limit that has put it off.
	Scope    string    `json:"scope,omitempty"`
	Rule     string    `json:"rule,omitempty"`
	Queue    string    `json:"queue"`
	Accepted time.Time `json:"accepted_at"`
}

// A Selection selects notifications. Each field matches any when it is empty, so
// that the zero value selects all.
type Selection struct {
	App, User, Category, CollapseKey string
}

func (s Selection) matches(n *push.Notification) bool {
	for _, pair := range [][2]string{{s.App, n.App}, {s.User, n.User}, {s.Category, n.Category}, {s.CollapseKey, n.CollapseKey}} {
		if pair[0] != "" && pair[0] != pair[1] {
			return false
		}
	}
	return true
}

// queuedPage is how many jobs one call of Queued looks at.
const queuedPage = 200

// A spot is one of asynq's collections of waiting jobs.
type spot struct {
	queue string
	state JobState
}

// spots are all of them, in the order in which they are looked through: a job
// mostly moves to one that comes later.
var spots = func() (all []spot) {
	for _, state := range []JobState{JobPutOff, JobScheduled, JobPending, JobActive} {
		for _, p := range []push.Priority{push.Critical, push.Default, push.Bulk} {
			all = append(all, spot{p.Queue(), state})
		}
	}
	return all
}()

// key is asynq's, of what is there.
func (s spot) key() string {
	for _, j := range jobStates {
		if j.state == s.state {
			return push.QueueKey(s.queue, j.name)
		}
	}
	return ""
}

// A found job is one that a spot holds.
type found struct {
	id    string
	until time.Time // when it comes back; zero when it is due
}

// Queued answers the selected ones of the next few hundred jobs, in no order,
// perhaps none, and the cursor that the next call goes on from; "" begins, and is
// answered at the end. One that moves on meanwhile may be missed, and one may
// come twice.
func (c *Control) Queued(ctx context.Context, s Selection, cursor string) (list []Queued, next string, err error) {
	at, position, err := readSpot(cursor)
	if err != nil {
		return nil, "", err
	}
	pauses, err := c.operators(ctx)
	if err != nil {
		return nil, "", err
	}
	for looked := 0; at < len(spots) && looked < queuedPage; {
		var jobs []found
		if jobs, position, err = c.page(ctx, spots[at], position); err != nil {
			return nil, "", err
		}
		some, err := c.read(ctx, spots[at], jobs, s, pauses)
		if err != nil {
			return nil, "", err
		}
		list, looked = append(list, some...), looked+len(jobs)
		if position == 0 {
			at++
		}
	}
	if at < len(spots) {
		next = fmt.Sprintf("%d-%d", at, position)
	}
	return list, next, c.tellRules(ctx, list)
}

// readSpot reads a cursor.
func readSpot(cursor string) (at int, position uint64, err error) {
	if cursor == "" {
		return 0, 0, nil
	}
	left, right, _ := strings.Cut(cursor, "-")
	at, err1 := strconv.Atoi(left)
	position, err2 := strconv.ParseUint(right, 10, 64)
	if err := errors.Join(err1, err2); err != nil || at < 0 || at >= len(spots) {
		return 0, 0, push.ErrCursor
	}
	return at, position, nil
}

// page answers a page of the jobs that a spot holds, and where the next one
// begins, 0 at the end. What stays there meanwhile is not missed, but for what a
// worker that stops puts back: a sorted set is scanned, and of a list what is left
// is counted from the end that jobs leave at, so that what is taken from anywhere
// has some come twice.
func (c *Control) page(ctx context.Context, s spot, position uint64) (jobs []found, next uint64, err error) {
	if s.state == JobPending || s.state == JobActive {
		left, err := c.queue.LLen(ctx, s.key()).Result()
		if err != nil {
			return nil, 0, fmt.Errorf("list what waits: %w", err)
		}
		if position > 0 && position < uint64(left) {
			left = int64(position)
		}
		if left == 0 {
			return nil, 0, nil
		}
		ids, err := c.queue.LRange(ctx, s.key(), -left, -max(1, left-queuedPage+1)).Result()
		if err != nil {
			return nil, 0, fmt.Errorf("list what waits: %w", err)
		}
		for _, id := range ids {
			jobs = append(jobs, found{id: id})
		}
		return jobs, uint64(max(0, left-queuedPage)), nil
	}
	pairs, next, err := c.queue.ZScan(ctx, s.key(), position, "", queuedPage).Result()
	if err != nil {
		return nil, 0, fmt.Errorf("list what waits: %w", err)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		jobs = append(jobs, found{pairs[i], backAt(pairs[i+1])})
	}
	return jobs, next, nil
}

// backAt is when a job comes back by its score, Unix time in seconds.
func backAt(score string) time.Time {
	seconds, err := strconv.ParseFloat(score, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0).UTC()
}

// messagesScript answers the messages of jobs: nothing of one that has gone, and an
// empty one where it is too long, or the key of another type.
//
// KEYS  the tasks
// ARGV  how long a message may be
var messagesScript = redis.NewScript(`
local answer = {}
for i, key in ipairs(KEYS) do
  local length = redis.pcall('HSTRLEN', key, 'msg')
  if type(length) == 'table' or length > tonumber(ARGV[1]) then
    answer[i] = ''
  else
    answer[i] = redis.call('HGET', key, 'msg')
  end
end
return answer
`)

// read looks into the jobs, and answers those that are selected. One that has
// gone since is left out; one that cannot be read, which a worker will set aside,
// is there when everything is selected.
func (c *Control) read(ctx context.Context, at spot, jobs []found, s Selection, pauses []Standing) ([]Queued, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	keys := make([]string, len(jobs))
	for i, job := range jobs {
		keys[i] = push.QueueKey(at.queue, "t:"+job.id)
	}
	messages, err := messagesScript.Run(ctx, c.queue, keys, push.MaxEnvelopeSize).Slice()
	if err != nil {
		return nil, fmt.Errorf("look into what waits: %w", err)
	}
	if len(messages) != len(jobs) {
		return nil, errors.New("look into what waits: the answer is cut off")
	}
	now := time.Now()
	var list []Queued
	for i, job := range jobs {
		message, there := messages[i].(string)
		if !there {
			continue
		}
		envelope, _ := push.ReadEnvelope(message)
		q := Queued{ID: job.id, Until: job.until, Queue: at.queue}
		var n *push.Notification
		if decoded, err := push.Decode([]byte(envelope.Payload)); err == nil {
			n = decoded.Notification
			q.App, q.User, q.Category, q.CollapseKey, q.Accepted = n.App, n.User, n.Category, n.CollapseKey, decoded.AcceptedAt
		}
		if n == nil && s != (Selection{}) || n != nil && !s.matches(n) {
			continue
		}
		q.For = waitsFor(now, at.state, envelope.Error, n, pauses)
		list = append(list, q)
	}
	return list, nil
}

// tellRules adds to what a limit has put off by which one, and until when.
func (c *Control) tellRules(ctx context.Context, list []Queued) error {
	var ids []string
	for _, q := range list {
		if q.For == ForLimit {
			ids = append(ids, q.ID)
		}
	}
	deferrals, err := c.records.LastDeferrals(ctx, ids)
	if err != nil {
		return err
	}
	for i := range list {
		q := &list[i]
		if d, ok := deferrals[q.ID]; ok && q.For == ForLimit {
			q.Scope, q.Rule = d.Scope, d.Rule
			if d.Until.After(q.Until) {
				q.Until = d.Until
			}
		}
	}
	return nil
}
