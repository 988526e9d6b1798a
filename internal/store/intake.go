package store

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/acknowledged"
	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/base/shard"
)

//go:embed peek.lua
var peekSource string

//go:embed remove.lua
var removeSource string

// A failover may lose a removal. The task is then accepted again, and recognized by its ID.
var (
	peekScript   = acknowledged.Reader(redis.NewScript(readMessage + peekSource))
	removeScript = acknowledged.Reader(redis.NewScript(readMessage + removeSource))
)

// An Intake reads the queues on which other asynq clients enqueue notifications: they have
// pushpace's queue names without a shard. Safe for concurrent use.
type Intake struct {
	client redis.UniversalClient
	queues []string
}

// Intakes returns one Intake for all queues; on a Cluster one Intake for each queue, as each queue
// lies in its own hash slot.
func Intakes(client redis.UniversalClient) []*Intake {
	if _, cluster := pipeline.OfCluster(client); !cluster {
		return []*Intake{{client, shard.Queues}}
	}
	all := make([]*Intake, len(shard.Queues))
	for i := range shard.Queues {
		all[i] = &Intake{client, shard.Queues[i : i+1]}
	}
	return all
}

// An IntakePlace is a list or set of an intake queue's tasks.
type IntakePlace struct{ Queue, Name string }

// An Offer is a task of an intake.
type Offer struct {
	IntakePlace
	ID string // the task's
	// Payload is the notification's JSON, or the whole message if there is a Reason.
	Payload []byte
	// Gone is true if the place names a task that does not exist.
	Gone bool
	// Reason and Why say why the task cannot be accepted; "" if it may be.
	Reason MalformedReason
	Why    string

	mark string // identifies the message that was read: see removeScript
}

// MaxOffers is the most tasks of each place that a Peek returns.
const MaxOffers = 64

// Peek returns the oldest tasks of each queue. skip is how many of the oldest tasks it skips, by
// place. With an error it also returns the tasks that it has read.
func (in *Intake) Peek(ctx context.Context, skip map[IntakePlace]int) ([]*Offer, error) {
	var keys []string
	args := []any{MaxOffers, MaxEnvelopeSize}
	for _, queue := range in.queues {
		for _, name := range []string{"pending", "scheduled", "groups", "paused"} {
			keys = append(keys, shard.QueueKey(queue, name))
		}
		args = append(args, shard.QueueKey(queue, ""), skip[IntakePlace{queue, "pending"}], skip[IntakePlace{queue, "scheduled"}])
	}
	reply, err := peekScript.Run(ctx, in.client, keys, args...).Slice()
	if err != nil {
		return nil, fmt.Errorf("read the intake: %w", err)
	}
	var offers []*Offer
	const values = 4 // for each task
	for i := 1; i+values <= len(reply); i += values {
		number, _ := reply[i].(int64)
		place, _ := reply[i+1].(string)
		id, _ := reply[i+2].(string)
		o := &Offer{IntakePlace: IntakePlace{in.queues[number-1], place}, ID: id}
		o.open(reply[i+3])
		offers = append(offers, o)
	}
	if problem, _ := reply[0].(string); problem != "" {
		err = errors.New("read the intake: " + problem)
	}
	return offers, err
}

func (o *Offer) open(message any) {
	switch m := message.(type) {
	case int64:
		o.mark = strconv.FormatInt(m, 10)
	case string:
		if o.Gone = m == ""; o.Gone {
			return
		}
		sum := sha1.Sum([]byte(m))
		o.mark = hex.EncodeToString(sum[:])
	}
	e, text, reason, why := openMessage(message)
	switch {
	case reason != "":
		o.Payload, o.Reason, o.Why = []byte(text), reason, why
	case e.Type != TaskType:
		o.refuse(text, "the task's type is not "+TaskType)
	case e.Group != "":
		o.refuse(text, "the task has a group: notifications are not aggregated")
	case e.UniqueKey != "":
		o.refuse(text, "the task has a unique lock: an ID makes a notification unique")
	default:
		o.Payload = []byte(e.Payload)
	}
}

func (o *Offer) refuse(message, why string) {
	o.Payload, o.Reason, o.Why = []byte(message), MalformedForeign, why
}

// Remove deletes accepted tasks and dead letters of one queue. It leaves a task if its message has
// changed.
func (in *Intake) Remove(ctx context.Context, queue string, offers []*Offer) error {
	keys := []string{shard.QueueKey(queue, "pending"), shard.QueueKey(queue, "scheduled"), shard.QueueKey(queue, "groups")}
	args := []any{shard.QueueKey(queue, ""), MaxEnvelopeSize}
	for _, o := range offers {
		args = append(args, o.Name, o.ID, o.mark)
	}
	if err := removeScript.Run(ctx, in.client, keys, args...).Err(); err != nil {
		return fmt.Errorf("remove tasks of the intake: %w", err)
	}
	return nil
}
