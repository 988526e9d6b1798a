package queue

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/acknowledged"
	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/clock"
)

// A worker that was killed leaves jobs in hand, which asynq brings back when their
// leases have been over for long. They come back sooner by a sign of life:
//
//   - A worker signs the shard's set of workers once a second. Redis's clock says when,
//     and every job that it pulls names the ID that it signs with.
//   - A worker that has not signed for deadAfter is dead. Another worker writes that down,
//     which ends the ID for good, and puts the jobs that name it at the head of the queue.
//   - A worker that was stopped, or cut off from Redis, cannot know whether it has been
//     taken for dead. From sureFor after its last sign on it begins no send, and gives
//     back and ends nothing, until it has signed again. If it is dead it begins another
//     term, with another ID, and drops what it has pulled before.
//   - No worker can sign while Redis is away, and none is dead for that. A worker that had
//     no answer for sureFor first signs for as long again, as the others do meanwhile, and
//     then judges them.
//
// The set lies with the queues, so that on a Cluster no other node is asked for its sake.

const (
	signEvery = time.Second
	sureFor   = 4 * time.Second
	deadAfter = 8 * time.Second
	// signTimeout bounds one sign, so that there is time for another.
	signTimeout = 2 * time.Second
)

// A Term is the time from a worker's first sign with an ID until it is taken for dead:
// what it pulls in a term is its own until the term is over.
type Term struct {
	id     string
	signed bool // at least once; its keeper's alone

	mu    sync.Mutex
	until time.Time     // when it stops being certain that it goes on
	over  bool          // it was taken for dead
	news  chan struct{} // is closed when either changes
}

func newTerm() *Term { return &Term{id: rand.Text()[:8], news: make(chan struct{})} }

// Sure reports whether it is certain that the term goes on.
func (t *Term) Sure() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Now().Before(t.until)
}

// Lost reports whether the term is over, so that another worker may have what was pulled
// in it. While that is not certain it waits for the next sign; it is true when ctx ends
// before.
func (t *Term) Lost(ctx context.Context) bool {
	for {
		t.mu.Lock()
		over, until, news := t.over, t.until, t.news
		t.mu.Unlock()
		if over || time.Now().Before(until) {
			return over
		}
		select {
		case <-news:
		case <-ctx.Done():
			return true
		}
	}
}

// note notes what a sign has told.
func (t *Term) note(until time.Time, over bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until, t.over = until, over
	close(t.news)
	t.news = make(chan struct{})
}

// A life is a worker's in one shard.
type life struct {
	every, sureFor, deadAfter, perSign time.Duration
	term                               atomic.Pointer[Term]
	// last is when the last sign was sent that was answered, and since the first of those
	// that have followed each other in time.
	last, since time.Time
	burying     atomic.Bool
}

func newLife() *life {
	l := &life{every: signEvery, sureFor: sureFor, deadAfter: deadAfter, perSign: signTimeout}
	l.term.Store(newTerm())
	return l
}

// workersKey is the set of the shard's workers, by when each has signed last, in Unix s
// of Redis's clock, and 0 for one that is dead.
func (c *client) workersKey() string { return c.shard.Key("signs") }

// signScript signs, unless the worker is dead, and returns other workers that are. It
// begins with what a Redis without memory does not refuse, so that it takes the rest
// too. One that is dead is entered once more: jobs may have come to name it since its
// others were looked for.
//
// KEYS  the workers
// ARGV  ID, 1 for the first sign with it, after how long one is dead (s), 1 to look for
// those who are
var signScript = redis.NewScript(`
redis.call('EXPIRE', KEYS[1], 86400)
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local signed = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or 0)
if signed == 0 and ARGV[2] ~= '1' then
  redis.call('ZADD', KEYS[1], 0, ARGV[1])
  return false
end
redis.call('ZADD', KEYS[1], string.format('%.3f', now), ARGV[1])
local limit = now - ARGV[3]
if ARGV[4] ~= '1' or signed < limit then return {} end
local dead = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.3f', limit), 'LIMIT', 0, 16)
for _, id in ipairs(dead) do redis.call('ZADD', KEYS[1], 0, id) end
return dead
`)

// sign signs, and returns who else is dead.
func (c *client) sign(ctx context.Context, l *life) (dead []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.perSign)
	defer cancel()
	term, now := l.term.Load(), time.Now() // before it is sent: Redis's instant is later
	if now.Sub(l.last) > l.sureFor {
		l.since = now
	}
	judges := now.Sub(l.since) >= l.sureFor
	dead, err = signScript.Run(ctx, c.alone, []string{c.workersKey()},
		term.id, !term.signed, l.deadAfter.Seconds(), judges).StringSlice()
	if errors.Is(err, redis.Nil) {
		c.config.RedisLog.LogAttrs(ctx, slog.LevelWarn, "this worker was taken for dead: others have what it had in hand",
			slog.Int("shard", c.shard.Number), slog.Duration("unseen", now.Sub(l.last)))
		l.term.Store(newTerm()) // before anything is signed: what was pulled is lost by then
		term.note(time.Time{}, true)
		return c.sign(ctx, l)
	}
	if err == nil {
		l.last, term.signed = now, true
		term.note(now.Add(l.sureFor), false)
	}
	return dead, err
}

// errLeft is why a worker does not sign off: what it has left is found when it is dead.
var errLeft = errors.New("some jobs are not put back")

// keep signs until ctx ends, and then signs off, unless ctx ends for errLeft. It calls
// begun after the first attempt.
func (c *client) keep(ctx context.Context, l *life, begun func()) {
	begun = sync.OnceFunc(begun)
	var side sync.WaitGroup
	defer side.Wait()
	unsure := clock.Trouble{
		Log:    c.config.RedisLog.With("shard", c.shard.Number),
		Begins: "nothing of a shard is sent: this worker cannot leave its sign of life, and others may take it for dead",
		Ends:   "the worker's sign of life is left again",
	}
	clock.Every(ctx, l.every, func() {
		dead, err := c.sign(ctx, l)
		c.strays.suspect(err)
		begun()
		var why []slog.Attr
		if err != nil {
			why = append(why, slog.Any("error", err))
		}
		unsure.Note(ctx, err != nil && !l.term.Load().Sure(), why...)
		if len(dead) > 0 && l.burying.CompareAndSwap(false, true) {
			side.Go(func() {
				defer l.burying.Store(false)
				c.bury(ctx, dead)
			})
		}
	})
	if context.Cause(ctx) == errLeft || !l.term.Load().Sure() { // Redis does not answer
		return
	}
	last, cancel := context.WithTimeout(context.Background(), l.perSign)
	defer cancel()
	_ = c.alone.ZRem(last, c.workersKey(), l.term.Load().id).Err() // else it is dead in a while
}

// An orphan is a job that a dead worker has in hand.
type orphan struct {
	id, worker string
	failed     []byte // counts a failure: the job may have been sent
	accepted   time.Time
}

// buryTimeout bounds a look at what dead workers have left.
const buryTimeout = 10 * time.Second

// bury puts back what dead workers had in hand, and forgets them. Until it has they are
// found again; several workers may do it at once.
func (c *client) bury(ctx context.Context, dead []string) {
	ctx, cancel := context.WithTimeout(ctx, buryTimeout)
	defer cancel()
	n := 0
	var err error
	for queue := range shard.Queues() {
		orphans, failed := c.orphans(ctx, queue, dead)
		some := 0
		if failed == nil {
			some, failed = c.handBack(ctx, queue, orphans)
		}
		n, err = n+some, errors.Join(err, failed)
	}
	if err == nil {
		err = c.alone.ZRem(ctx, c.workersKey(), dead).Err()
	}
	attrs := []slog.Attr{slog.Int("shard", c.shard.Number), slog.Int("workers", len(dead)), slog.Int("jobs", n)}
	if err != nil {
		c.config.RedisLog.LogAttrs(ctx, slog.LevelWarn, "what dead workers had in hand is not all back on the queue yet", append(attrs, slog.Any("error", err))...)
		return
	}
	c.config.Log.LogAttrs(ctx, slog.LevelWarn, "workers are dead: what they had in hand is back on the queue", attrs...)
}

// orphansScript looks at some of the jobs that are in hand. It returns where to go on,
// 0 for the end, and of each job that names a dead worker its ID, the worker and its message,
// which is empty where it cannot be read.
//
// KEYS  lease
// ARGV  where to begin, how many, prefix of the tasks' keys, how long a message may be,
// the dead
var orphansScript = acknowledged.Reader(redis.NewScript(readMessage + `
local page = redis.call('ZSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local dead, answer = {}, {page[1]}
for i = 5, #ARGV do dead[ARGV[i]] = true end
for i = 1, #page[2], 2 do
  local id = page[2][i]
  local key = ARGV[3] .. id
  local worker = redis.pcall('HGET', key, 'worker')
  if type(worker) == 'table' then read(key, 0) end -- breaks off where the key is on its way to another master
  if dead[worker] then
    local message = read(key, tonumber(ARGV[4]))
    answer[#answer + 1] = id
    answer[#answer + 1] = worker
    answer[#answer + 1] = type(message) == 'string' and message or ''
  end
end
return answer
`))

// orphans returns what dead workers have in hand, those that were accepted last first.
func (c *client) orphans(ctx context.Context, queue string, dead []string) (all []orphan, err error) {
	for position := "0"; ; {
		args := []any{position, overPage, c.shard.QueueKey(queue, "t:"), store.MaxEnvelopeSize}
		for _, id := range dead {
			args = append(args, id)
		}
		reply, err := orphansScript.Run(ctx, c.alone, []string{c.shard.QueueKey(queue, "lease")}, args...).StringSlice()
		if err != nil {
			return nil, err
		}
		for job := range slices.Chunk(reply[1:], 3) {
			o := orphan{id: job[0], worker: job[1]}
			if envelope, err := store.ReadEnvelope(job[2]); err == nil { // else whoever pulls it sets it aside
				o.failed = envelope.FailedOnceMore()
				if n, err := push.Decode([]byte(envelope.Payload)); err == nil {
					o.accepted = n.AcceptedAt
				}
			}
			all = append(all, o)
		}
		if position = reply[0]; position == "0" {
			break
		}
	}
	slices.SortStableFunc(all, func(a, b orphan) int { return cmp.Or(b.accepted.Compare(a.accepted), cmp.Compare(b.id, a.id)) })
	return all, nil
}

// handBack puts jobs at the head of their queue, each before the ones before it, and
// returns how many: not one that another worker has put back.
func (c *client) handBack(ctx context.Context, queue string, orphans []orphan) (n int, err error) {
	for page := range slices.Chunk(orphans, overPage) {
		pipe := c.alone.Pipeline()
		cmds := make([]*redis.Cmd, len(page))
		for i, o := range page {
			keys := []string{c.shard.QueueKey(queue, "active"), c.shard.QueueKey(queue, "lease"), c.shard.QueueKey(queue, "pending"), c.shard.QueueKey(queue, "t:"+o.id), c.shard.IdleKey(queue)}
			cmds[i] = cutOffScript.Eval(ctx, pipe, keys, o.id, o.failed, o.worker)
		}
		_, _ = pipe.Exec(ctx) // each command has its own error
		for _, cmd := range cmds {
			switch failed := cmd.Err(); {
			case failed == nil:
				n++
			case !redisreply.NotFound(failed):
				err = failed
			}
		}
		if err != nil {
			break
		}
	}
	return n, err
}
