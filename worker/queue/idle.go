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

// An idle process does not poll constantly, it waits for wake-ups:
//
//   - A pull that finds a queue empty sets the queue's idle flag in the same step, so that it
//     misses no job.
//   - Every script that puts a job on a queue removes the flag and publishes the queue on the
//     shard's channel, in the same step (store.WakeIdle). If no process is idle, that costs one
//     command inside a script.
//   - All processes subscribe to the channel and pull from the queue at once. Each process that
//     finds the queue empty sets the flag again.
//   - A wake-up is a hint. A lost wake-up delays a job by at most a poll, and a needless wake-up costs a
//     pull.
//   - A pull of an empty queue also returns when its next delayed job is due, and the process
//     pulls then. So does a process that returns a job. A producer or operator that delays a job
//     by less than a poll publishes a wake-up.

// pollIdle is the interval at which a process polls an empty queue, and so the longest delay after a lost
// wake-up. It is not shorter, as wake-ups are rarely lost, and each worker polls each queue of each
// shard. store.WakeIdle has the same number: it publishes a wake-up for a job that is due within it.
const pollIdle = 1200 * time.Millisecond

// echoAfter is the silence after which a process publishes an empty message itself. If it does not
// receive this message either, it subscribes anew: a connection to a lost server looks like a silent one,
// also after a failover. Until then the process finds jobs by polling.
const echoAfter = 5 * time.Second

// idle schedules the polls of the queues.
type idle struct {
	shard *store.Shard
	poll  time.Duration
	echo  time.Duration // silence before an empty message
	limit time.Duration // time-out of the empty message
	woken chan struct{} // has an element after a wake-up

	mu     sync.Mutex
	queues []string
	until  map[string]time.Time // by queue: the next poll; zero for now
}

func newIdle(of *store.Shard) *idle {
	return &idle{
		shard: of, poll: pollIdle, echo: echoAfter, limit: echoAfter / 5,
		woken: make(chan struct{}, 1), queues: shard.Queues, until: make(map[string]time.Time),
	}
}

// claim reports whether to pull from the queue now: it was not empty, a wake-up has come, or the
// poll is due. claim schedules the next poll before the pull, so that a wake-up during the pull
// is kept.
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

// isDue reports whether a pull from the queue is due.
func (i *idle) isDue(queue string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return !time.Now().Before(i.until[queue])
}

// schedule sets the queue's next pull, after the duration wait.
func (i *idle) schedule(queue string, wait time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.until[queue] = time.Now().Add(wait)
}

// dueIn schedules a pull for a job that is due after the duration wait, unless an earlier pull is
// scheduled.
func (i *idle) dueIn(queue string, wait time.Duration) {
	i.mu.Lock()
	at := time.Now().Add(wait)
	sooner := at.Before(i.until[queue])
	if sooner {
		i.until[queue] = at
	}
	i.mu.Unlock()
	if sooner {
		i.wake() // a running wait has a timer for a later instant
	}
}

// next returns the instant of the earliest scheduled pull; zero for now.
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

// wake ends the current wait or, if no wait runs, the next.
func (i *idle) wake() {
	select {
	case i.woken <- struct{}{}:
	default:
	}
}

// wait returns when a pull is due, or ctx ends. If there are parked jobs, it waits at most
// capacityRecheck, as a route may have capacity soon.
func (i *idle) wait(ctx context.Context, parked bool) {
	left := time.Until(i.next())
	if parked {
		left = min(left, capacityRecheck)
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

// listen receives wake-ups until ctx ends.
func (i *idle) listen(ctx context.Context, client redis.UniversalClient, log *slog.Logger) {
	if err := i.publish(ctx, client); redisreply.Answered(err) && redisreply.Forbidden(err) {
		log.LogAttrs(ctx, slog.LevelWarn, "an idle worker gets no wake-ups and polls about once a second: allow Redis's user PUBLISH, SUBSCRIBE and the channels &"+shard.AsynqKeys, slog.Any("error", err))
	}
	for ctx.Err() == nil {
		i.receive(ctx, client)
	}
}

// receive waits for wake-ups on one subscription, until the subscription is dead or ctx ends. On each
// connect it pulls from all queues, as it missed earlier messages.
func (i *idle) receive(ctx context.Context, client redis.UniversalClient) {
	subscribe := client.Subscribe
	if i.shard.Sharded() {
		subscribe = client.SSubscribe
	}
	messages := subscribe(ctx, i.shard.Channel())
	defer messages.Close()
	received := messages.ChannelWithSubscriptions()
	silence := time.NewTimer(i.silenceLimit())
	defer silence.Stop()
	for published := false; ; {
		select {
		case message := <-received:
			published = false
			silence.Reset(i.silenceLimit())
			if wakeUp, ok := message.(*redis.Message); !ok {
				i.wakeQueues(i.queues)
			} else if wakeUp.Payload != "" {
				i.wakeQueues([]string{i.shard.QueueOf(wakeUp.Payload)})
			}
		case <-silence.C:
			if published {
				return
			}
			published = true
			publishing, cancel := context.WithTimeout(ctx, i.limit)
			_ = i.publish(publishing, client) // after an error the silence goes on
			cancel()
			silence.Reset(i.echo)
		case <-ctx.Done():
			return
		}
	}
}

// wakeQueues schedules a pull from these queues now.
func (i *idle) wakeQueues(queues []string) {
	for _, queue := range queues {
		i.schedule(queue, 0)
	}
	i.wake()
}

// silenceLimit returns a random limit of silence, so that the first process to publish keeps the
// others from publishing.
func (i *idle) silenceLimit() time.Duration { return i.echo/2 + rand.N(i.echo/2) }

// publish publishes an empty message on the shard's channel.
func (i *idle) publish(ctx context.Context, client redis.UniversalClient) error {
	if i.shard.Sharded() {
		return client.SPublish(ctx, i.shard.Channel(), "").Err()
	}
	return client.Publish(ctx, i.shard.Channel(), "").Err()
}
