package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/clock"
)

// An intake enqueues the tasks that plain asynq clients put on the queues pushpace-PRIORITY, and
// then removes them there. After a crash between the two steps, or if two workers serve the intake,
// a task is enqueued again, and its ID identifies the duplicate. A task that cannot be accepted
// becomes a dead letter.
type intake struct {
	*handler
	queues   *store.Intake
	producer *push.Producer
}

const (
	// intakeInterval is the interval between two polls of an intake. docs/producers.md promises that a
	// worker accepts a task within it.
	intakeInterval = 200 * time.Millisecond
	// maxIntakeSkipped bounds the tasks of a store.IntakePlace that a poll skips because their user's
	// master is unreachable. Each poll reads the skipped tasks again, some kB each, five times a second:
	// more of them would leave Redis no time for other work.
	maxIntakeSkipped = 1024
)

// takesIn reports whether this worker serves the intakes.
func (h *handler) takesIn() bool { return h.leads(0) }

// followIntake serves an intake until ctx ends.
func (h *handler) followIntake(ctx context.Context, queues *store.Intake) {
	in := &intake{h, queues, push.NewProducer(h.Queue, h.Prefix, h.IDRetention).WithShards(h.Shards)}
	trouble := clock.Trouble{
		Log:    h.RedisLog,
		Begins: "notifications of plain asynq clients are not accepted, and stay on their queues",
		Ends:   "notifications of plain asynq clients are accepted again",
	}
	clock.Every(ctx, intakeInterval, func() {
		if h.takesIn() {
			trouble.Failing(ctx, in.poll(ctx))
		}
	})
}

// poll takes all tasks of the intake. It returns the first error.
func (in *intake) poll(ctx context.Context) (err error) {
	passed := map[store.IntakePlace]int{}
	for ctx.Err() == nil {
		offers, unread := in.queues.Peek(ctx, passed)
		left, failed := in.take(ctx, offers)
		err = cmp.Or(err, unread, failed)
		of, more := map[store.IntakePlace]int{}, false
		for _, o := range offers {
			of[o.IntakePlace]++
			more = more || of[o.IntakePlace] == store.MaxOffers
		}
		for _, o := range left {
			passed[o.IntakePlace]++
			more = more && passed[o.IntakePlace] < maxIntakeSkipped
		}
		if !more {
			break
		}
	}
	return err
}

// take enqueues the offers or makes them dead letters, and removes them. It returns the offers that stay
// on their queues, and the first error.
func (in *intake) take(ctx context.Context, offers []*store.Offer) (left []*store.Offer, err error) {
	done := map[string][]*store.Offer{}
	end := func(o *store.Offer, failed error) {
		if failed != nil {
			left, err = append(left, o), cmp.Or(err, failed)
			return
		}
		done[o.Queue] = append(done[o.Queue], o)
	}
	var asked []*store.Offer
	var notifications []*push.Notification
	for _, o := range offers {
		n := in.read(o)
		switch {
		case o.Gone:
			end(o, nil)
		case o.Reason != "":
			end(o, in.setAside(ctx, o))
		default:
			asked, notifications = append(asked, o), append(notifications, n)
		}
	}
	for i, r := range in.enqueue(ctx, notifications) {
		o := asked[i]
		if faults := push.Faults(nil); errors.As(r.Err, &faults) || errors.Is(r.Err, push.ErrConflict) {
			o.Reason, o.Why = store.MalformedNotification, r.Err.Error()
			r.Err = in.setAside(ctx, o)
		}
		end(o, r.Err)
	}
	for queue, all := range done {
		if failed := in.queues.Remove(ctx, queue, all); failed != nil {
			left, err = append(left, all...), cmp.Or(err, failed)
		}
	}
	return left, err
}

func (in *intake) enqueue(ctx context.Context, all []*push.Notification) []push.Result {
	if len(all) == 0 {
		return nil
	}
	producer := in.producer
	if general, _ := in.Limits.Base(); general.Night.Zone != nil {
		producer = producer.WithTimeZone(general.Night.Zone.String())
	}
	return producer.EnqueueAll(ctx, all)
}

// read reads the offer's notification, or sets the Reason of an offer without a valid one.
func (in *intake) read(o *store.Offer) *push.Notification {
	if o.Gone || o.Reason != "" {
		return nil
	}
	n, err := push.Parse(o.Payload)
	if err != nil {
		o.Why = err.Error()
		switch {
		case len(o.Payload) > push.MaxEncodedSize:
			o.Reason = store.MalformedSize
		case !json.Valid(o.Payload):
			o.Reason = store.MalformedJSON
		default:
			o.Reason = store.MalformedNotification
		}
		return nil
	}
	n.ID = cmp.Or(n.ID, o.ID)
	if i := slices.IndexFunc(priorities, func(p push.Priority) bool { return p.Queue() == o.Queue }); n.Priority == "" && i >= 0 {
		n.Priority = priorities[i]
	}
	return n
}

// priorities are given to notifications without their own, by the queue. push.Default is omitted:
// it means the same as no priority, and equal contents must compare as equal.
var priorities = []push.Priority{push.Critical, push.Bulk}

// setAside makes the offer a dead letter without a user, in the shard of its ID.
func (in *intake) setAside(ctx context.Context, o *store.Offer) error {
	shards, err := in.records.All(ctx)
	if err != nil {
		return err
	}
	letter := &store.Letter{
		ID: o.ID, State: store.Malformed, Reason: string(o.Reason), Error: o.Why,
		At: time.Now().UTC(), Queue: o.Queue, Job: o.Payload,
	}
	if err := shards[shard.Of(len(shards), "", o.ID)].KeepMalformed(ctx, letter); err != nil {
		return err
	}
	in.repeats.Write(ctx, in.Log, slog.LevelWarn, "a task of a plain asynq client is kept as a dead letter", []slog.Attr{slog.String("reason", letter.Reason)},
		slog.String("task", o.ID), slog.String("queue", o.Queue), slog.String("error", o.Why))
	in.Observer.Ended(letter.State)
	return nil
}
