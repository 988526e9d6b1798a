package worker

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/push"
)

// A puller is the lanes' client. It saves two kinds of round trips.
//
// asynq asks for each job by itself, queue by queue, the most urgent ones mostly
// first, so that while one queue is busy the empty ones cost as much as it does.
// Several jobs are pulled at once, and what was found empty is not asked again
// for a moment.
//
// What is for a provider that is stuck stays on the queue: see park.go.
//
// A notification that is delivered at its first attempt, as most are, is settled
// in the step in which asynq is done with its job.
//
// What asynq could not read, or would lose, it never sees: see unfit.go.
type puller struct {
	redis.UniversalClient
	routes   routes
	dones    *doneGroups
	oneStep  bool
	failed   atomic.Bool // the last pull
	stalled  atomic.Bool // a gate was, at the last pull
	visits   visits
	refusals refusals
	aside    func(ctx context.Context, job unfit) error

	mu        sync.Mutex
	empty     map[string]time.Time // by the key of what is pending: until when
	ready     map[string][]pulled  // by the same: jobs that were pulled ahead
	pruned    time.Time
	delivered map[string]delivered // by ID: handled, and not settled yet
}

func newPuller(client redis.UniversalClient, records *push.Records, routes routes, log *slog.Logger) *puller {
	return &puller{
		UniversalClient: client, routes: routes, refusals: refusals{log: log}, dones: newDoneGroups(client, records), oneStep: push.OneRedis(client),
		empty: make(map[string]time.Time, len(push.Queues())), ready: make(map[string][]pulled), delivered: make(map[string]delivered),
	}
}

// delivered is a notification that is to be settled with its job.
type delivered struct {
	outcomes []push.TargetOutcome
	at       time.Time
}

// forgetAfter is when a delivered notification is forgotten of whose job, cut
// off or taken over, asynq never says that it is done.
const forgetAfter = 5 * time.Minute

// settle takes over the settle of a notification that is delivered, and whose
// job is done as soon as the handler returns. It answers whether it does.
func (p *puller) settle(id string, outcomes []push.TargetOutcome) bool {
	if !p.oneStep {
		return false
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.pruned) > forgetAfter {
		p.pruned = now
		maps.DeleteFunc(p.delivered, func(_ string, d delivered) bool { return now.Sub(d.at) > forgetAfter })
	}
	p.delivered[id] = delivered{outcomes, now}
	return true
}

// delivers reports whether this process has delivered the notification, and
// its job is not done: what comes back is not to be sent again.
func (p *puller) delivers(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	d, ok := p.delivered[id]
	if ok {
		d.at = time.Now() // it may come again
		p.delivered[id] = d
	}
	return ok
}

// EvalSha takes the place of asynq's Dequeue, Done, Retry and Requeue, and of its
// looks for what is due and for what a crash has left, and passes everything else
// on. They are told by the keys that asynq's rdb gives them.
func (p *puller) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	switch {
	case len(keys) == 4 && strings.HasSuffix(keys[0], ":pending") && strings.HasSuffix(keys[3], ":lease"):
		return p.dequeue(ctx, keys, args)
	case len(keys) == 5 && len(args) == 3 && strings.HasSuffix(keys[0], ":active") && strings.HasSuffix(keys[4], ":processed"):
		return p.done(ctx, sha, keys, args)
	case len(keys) == 2 && len(args) == 4 && strings.HasSuffix(keys[1], ":pending"):
		return forwardScript.Run(ctx, p.UniversalClient, keys, args...)
	case len(keys) == 1 && len(args) == 2 && strings.HasSuffix(keys[0], ":lease"):
		return p.crashed(ctx, keys[0], args)
	case len(keys) == 4 && strings.HasSuffix(keys[0], ":active") && strings.HasSuffix(keys[2], ":pending"):
		return p.cutOff(ctx, keys, args)
	case len(keys) == 8 && strings.HasSuffix(keys[3], ":retry"):
		return p.returnJob(ctx, sha, keys, args)
	}
	return p.UniversalClient.EvalSha(ctx, sha, keys, args...)
}

// done settles in the same step what waits for it.
func (p *puller) done(ctx context.Context, sha string, keys []string, args []any) *redis.Cmd {
	id, _ := args[0].(string)
	p.mu.Lock()
	d, ours := p.delivered[id]
	p.mu.Unlock()
	if !ours {
		return p.insist(ctx, func(ctx context.Context) *redis.Cmd { return p.UniversalClient.EvalSha(ctx, sha, keys, args...) })
	}
	cmd := p.insist(ctx, func(ctx context.Context) *redis.Cmd {
		cmd := redis.NewCmd(ctx)
		if err := p.dones.done(ctx, id, d.outcomes, p.stalled.Load(), keys, args); err != nil {
			cmd.SetErr(err)
		}
		return cmd
	})
	if err := cmd.Err(); err == nil || notFound(err) {
		p.mu.Lock()
		delete(p.delivered, id)
		p.mu.Unlock()
	}
	return cmd
}

// returnJob puts a job back on its queue. Where the answer is lost it may have been
// done, and another worker may have the job by now: to do it again would take the job
// from that one, and have a third send beside it.
func (p *puller) returnJob(ctx context.Context, sha string, keys []string, args []any) *redis.Cmd {
	message, _ := args[1].([]byte)
	again := false
	return p.insist(ctx, func(ctx context.Context) *redis.Cmd {
		if again {
			known, err := p.HGet(ctx, keys[0], "msg").Result()
			if errors.Is(err, redis.Nil) || err == nil && returned(known, string(message)) {
				err = push.ErrNotInHand
			}
			if err != nil {
				cmd := redis.NewCmd(ctx)
				cmd.SetErr(err)
				return cmd
			}
		}
		again = true
		return p.UniversalClient.EvalSha(ctx, sha, keys, args...)
	})
}

// returned reports whether the message that asynq has of a job is the one that it
// was to be put back with, or one of a later visit.
func returned(known, message string) bool {
	there, err := push.ReadEnvelope(known)
	ours, _ := push.ReadEnvelope(message)
	return known == message || err == nil && there.Retried > ours.Retried
}

// insist repeats what takes a job out of hand. asynq's own repetitions come with a
// context that has ended, and never reach Redis.
func (p *puller) insist(ctx context.Context, f func(context.Context) *redis.Cmd) *redis.Cmd {
	cmd := f(ctx)
	if ended(cmd) {
		return cmd
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), insistFor)
	defer cancel()
	_ = p.refusals.persist(ctx, insistFor, func() error { // the error is the command's
		if cmd = f(ctx); ended(cmd) {
			return nil
		}
		return cmd.Err()
	})
	return cmd
}

// ended reports whether the job is out of hand, or another script is asked for.
func ended(cmd *redis.Cmd) bool {
	err := cmd.Err()
	return err == nil || notFound(err) || redis.HasErrorPrefix(err, "NOSCRIPT")
}

// insistFor is how long: until another worker may have the job, whose lease
// has been over for half a minute then.
const insistFor = time.Minute

// notFound tells asynq's answer for a job that is not, or no longer, in hand.
func notFound(err error) bool { return strings.Contains(err.Error(), "NOT FOUND") }

// dequeue hands out one job of several that are pulled at once, and answers by
// itself for a queue that was just found empty.
func (p *puller) dequeue(ctx context.Context, keys []string, args []any) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	if p.refusals.recording() {
		cmd.SetErr(redis.Nil)
		return cmd
	}
	job := p.next(ctx, keys[0], args[0])
	if job == nil && !p.foundEmpty(keys[0]) {
		var err error
		job, err = p.pull(ctx, keys, args)
		p.failed.Store(err != nil)
		p.refusals.pulled(keys[0], err)
		if err != nil {
			_ = sleep(ctx, failedPause) // asynq asks again at once
			cmd.SetErr(err)
			return cmd
		}
		if job == nil {
			p.mu.Lock()
			p.empty[keys[0]] = time.Now().Add(emptyFor)
			p.mu.Unlock()
		}
	}
	if job == nil {
		cmd.SetErr(redis.Nil)
		return cmd
	}
	p.visits.note(job)
	cmd.SetVal(job.message)
	return cmd
}

func (p *puller) foundEmpty(queue string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.empty[queue])
}

// failedPause is how long a lane waits after a pull that failed.
const failedPause = 100 * time.Millisecond

// emptyFor is how long a queue that was found empty is not asked again. It
// delays an urgent job by at most as much.
const emptyFor = 20 * time.Millisecond
