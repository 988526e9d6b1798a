package queue

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/store"
)

// An idle process does not ask for jobs time and again, it waits for a word:
//
//   - The pull that finds a queue empty sets the queue's flag, in the same step, so that no job
//     comes in between unnoticed.
//   - Whatever of ours puts a job on a queue takes the flag down, and publishes the queue on the
//     shard's channel, in the same step (store.WakeIdle). While nobody is idle that costs one
//     command inside a script.
//   - All processes listen there, and ask the queue at once. Each that finds it empty sets the
//     flag again.
//   - A word is a hint. One that is lost costs a poll at most; one too many costs a pull.
//   - Such a pull returns when the next delayed job is due, and the process asks again then.
//     A process that returns a job asks again then itself. A producer or operator that delays
//     one for less than a poll gives a word.

// pollIdle is how often a process asks a queue that was empty without any word: so late may a job
// be whose word is lost. Words are rarely lost, and each worker asks each queue of each shard.
// store.WakeIdle has the same number: what is due sooner has a word.
const pollIdle = 1200 * time.Millisecond

// echoAfter is for how long a process hears nothing before it says an empty word itself. When it
// does not hear that either, it subscribes anew: a connection to a server that is gone looks like
// one on which nothing is said, and a failover leaves it behind. Until then jobs wait for polls.
const echoAfter = 5 * time.Second

// idle is what a process knows of the queues that are empty.
type idle struct {
	shard *store.Shard
	poll  time.Duration
	echo  time.Duration // of silence
	limit time.Duration // for the empty word: one that gets lost costs a poll
	woken chan struct{} // holds that a word has come

	mu     sync.Mutex
	queues []string
	until  map[string]time.Time // by queue: when it is asked again; zero for now
}

func newIdle(of *store.Shard) *idle {
	return &idle{
		shard: of, poll: pollIdle, echo: echoAfter, limit: echoAfter / 5,
		woken: make(chan struct{}, 1), queues: shard.Queues, until: make(map[string]time.Time),
	}
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

// now reports whether the queue is to be asked at once.
func (i *idle) now(queue string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return !time.Now().Before(i.until[queue])
}

// ask has the queue be asked after so long.
func (i *idle) ask(queue string, after time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.until[queue] = time.Now().Add(after)
}

// dueIn tells that a job of the queue is due after that time: the queue is asked then.
func (i *idle) dueIn(queue string, left time.Duration) {
	i.mu.Lock()
	at := time.Now().Add(left)
	sooner := at.Before(i.until[queue])
	if sooner {
		i.until[queue] = at
	}
	i.mu.Unlock()
	if sooner {
		i.wake() // who waits has another instant in mind
	}
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

// wait returns when there may be a job on one of the queues, or ctx ends. Where jobs are parked
// there may be room for one soon.
func (i *idle) wait(ctx context.Context, parked bool) {
	left := time.Until(i.next())
	if parked {
		left = min(left, roomPause)
	}
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
	if err := i.publish(ctx, client); redisreply.Answered(err) && redisreply.Forbidden(err) {
		log.LogAttrs(ctx, slog.LevelWarn, "an idle worker is not woken, and finds jobs by asking about once a second: allow Redis's user PUBLISH, SUBSCRIBE and the channels &"+shard.AsynqKeys, slog.Any("error", err))
	}
	for ctx.Err() == nil {
		i.hear(ctx, client)
	}
}

// hear takes words by one subscription, until it is dead or ctx ends. What was said before a
// connection, the first one or a new one, was not heard: all queues are asked then.
func (i *idle) hear(ctx context.Context, client redis.UniversalClient) {
	subscribe := client.Subscribe
	if i.shard.Sharded() {
		subscribe = client.SSubscribe
	}
	words := subscribe(ctx, i.shard.Channel())
	defer words.Close()
	heard := words.ChannelWithSubscriptions()
	silence := time.NewTimer(i.patience())
	defer silence.Stop()
	for spoke := false; ; {
		select {
		case word := <-heard:
			spoke = false
			silence.Reset(i.patience())
			if message, told := word.(*redis.Message); !told {
				i.heard(i.queues)
			} else if message.Payload != "" {
				i.heard([]string{i.shard.QueueOf(message.Payload)})
			}
		case <-silence.C:
			if spoke {
				return
			}
			spoke = true
			publishing, cancel := context.WithTimeout(ctx, i.limit)
			_ = i.publish(publishing, client) // or it is silent
			cancel()
			silence.Reset(i.echo)
		case <-ctx.Done():
			return
		}
	}
}

// heard has these queues be asked now.
func (i *idle) heard(queues []string) {
	for _, queue := range queues {
		i.ask(queue, 0)
	}
	i.wake()
}

// patience is for how long silence is borne. It is drawn, so that the first who speaks is heard
// by the others before they do.
func (i *idle) patience() time.Duration { return i.echo/2 + rand.N(i.echo/2) }

// publish says an empty word on the shard's channel, which all listeners hear.
func (i *idle) publish(ctx context.Context, client redis.UniversalClient) error {
	if i.shard.Sharded() {
		return client.SPublish(ctx, i.shard.Channel(), "").Err()
	}
	return client.Publish(ctx, i.shard.Channel(), "").Err()
}
