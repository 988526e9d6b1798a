package queue

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/asynqwire"
	"github.com/pushpace/pushpace/internal/base/shard"
)

// An idle process does not ask for jobs time and again, it waits for a word:
//
//   - The pull that finds a queue empty enters the process's channel into the queue's
//     set of idle ones, in the same step, so that no job comes in between unnoticed.
//   - Whatever of ours puts a job on a queue takes one of that set, and publishes the
//     queue to its channel, in the same step (asynqwire.WakeIdle). While nobody is idle that
//     costs one command inside a script, and one job wakes one process.
//   - A word has that queue asked at once.
//   - A word is a hint. One that is lost, or that nobody gives since another client of
//     asynq's has put the job there, costs a poll at most; one too many costs a pull.
//   - Who cannot take a job, as all handlers are busy or the process ends, leaves the
//     set and passes the word on.
//
// A process that has crashed stays in the set, and takes one word of each queue along.

// pollIdle is how often a process asks a queue that was empty, without any word.
const pollIdle = 1200 * time.Millisecond

// idlePolls is the life of the set of idle processes: each enters it at every poll.
const idlePolls = 10

// echoAfter is how often a process gives itself a word. When the one before has not
// come, it subscribes anew: a connection to a server that is gone looks like one on
// which nothing is said, and a failover leaves it behind.
const echoAfter = 5 * time.Second

// idle is what a process knows of the queues that are empty.
type idle struct {
	shard   shard.Shard
	channel string
	poll    time.Duration
	echo    time.Duration // between two words to itself
	limit   time.Duration // for what is said to Redis that may get lost
	woken   chan struct{} // holds that a word has come

	inHand atomic.Int64 // jobs that the handlers have
	most   int64        // that they may have

	mu     sync.Mutex
	queues []string
	until  map[string]time.Time // by queue: when it is asked again; zero for now
}

func newIdle(of shard.Shard) *idle {
	i := &idle{shard: of, channel: "asynq:idle:" + rand.Text(), poll: pollIdle, echo: echoAfter, limit: leaveTimeout, woken: make(chan struct{}, 1), until: make(map[string]time.Time)}
	for queue := range asynqwire.Queues() {
		i.queues = append(i.queues, queue)
	}
	return i
}

// claim reports whether the queue is to be asked: it was not found empty, a word has
// come, or the poll is due. It is taken for empty until ask says otherwise, so that a
// word that comes meanwhile is not lost.
func (i *idle) claim(queue string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	if now.Before(i.until[queue]) {
		return false
	}
	i.until[queue] = now.Add(i.poll)
	return true
}

// ask has the queue be asked after so long.
func (i *idle) ask(queue string, after time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.until[queue] = time.Now().Add(after)
}

// next is when the first of the queues is to be asked; zero for now.
func (i *idle) next() (next time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for n, queue := range i.queues {
		if until := i.until[queue]; n == 0 || until.Before(next) {
			next = until
		}
	}
	return next
}

// wake ends the wait that is under way, or else the next one.
func (i *idle) wake() {
	select {
	case i.woken <- struct{}{}:
	default:
	}
}

// wait returns when there may be a job on one of the queues, or ctx ends.
func (i *idle) wait(ctx context.Context) {
	left := time.Until(i.next())
	if left <= 0 {
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-i.woken:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// listen takes words until ctx ends.
func (i *idle) listen(ctx context.Context, client redis.UniversalClient, log *slog.Logger) {
	if err := client.Publish(ctx, i.channel, "").Err(); redis.HasErrorPrefix(err, "NOPERM") {
		log.LogAttrs(ctx, slog.LevelWarn, "an idle worker is not woken, and finds jobs by asking once a second: allow Redis's user the channels &asynq:*", slog.Any("error", err))
	}
	for ctx.Err() == nil {
		i.hear(ctx, client)
	}
}

// hear takes words by one subscription, until it is dead or ctx ends. What was entered
// before a connection, the first one or a new one, is worth nothing: all queues are
// asked then.
func (i *idle) hear(ctx context.Context, client redis.UniversalClient) {
	words := client.Subscribe(ctx, i.channel)
	defer words.Close()
	heard := words.ChannelWithSubscriptions()
	echo := time.NewTicker(i.echo)
	defer echo.Stop()
	for silent := false; ; {
		select {
		case word := <-heard:
			silent = false
			asked := i.queues
			message, told := word.(*redis.Message)
			if told && message.Payload == "" { // its own
				continue
			}
			if told {
				asked = []string{i.shard.QueueOf(message.Payload)}
			}
			for _, queue := range asked {
				i.ask(queue, 0)
			}
			i.wake()
			if told && i.inHand.Load() >= i.most {
				i.leave(ctx, client, asked)
			}
		case <-echo.C:
			if silent {
				return
			}
			silent = true
			publishing, cancel := context.WithTimeout(ctx, i.limit)
			_ = client.Publish(publishing, i.channel, "").Err() // or it is silent
			cancel()
		case <-ctx.Done():
			return
		}
	}
}

// leaveScript takes a process out of a set of idle ones, and wakes another: there may
// be jobs that only the one which leaves was told of.
//
// KEYS  the idle; ARGV  channel
var leaveScript = redis.NewScript(asynqwire.WakeIdle + `
redis.call('SREM', KEYS[1], ARGV[1])
wake(KEYS[1])
return 1
`)

// leaveTimeout bounds what is said to Redis that may get lost: that costs a poll.
const leaveTimeout = time.Second

// leave has no more words for these queues be given to this process.
func (i *idle) leave(ctx context.Context, client redis.UniversalClient, queues []string) {
	ctx, cancel := context.WithTimeout(ctx, i.limit)
	defer cancel()
	for _, queue := range queues {
		_ = leaveScript.Run(ctx, client, []string{i.shard.IdleKey(queue)}, i.channel).Err()
	}
}
