package store

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/base/redisreply"
)

//go:embed accept.lua
var acceptSource string

var acceptScript = redis.NewScript(WakeIdle + waitsSource + acceptSource)

// An Acceptance is one new notification on its way to the queue.
type Acceptance struct {
	ID, Queue string
	Facts     Facts

	message []byte // in asynq's encoding
	at      *Shard

	// State is the state of an existing record with this ID; "" for none.
	State State
	// Conflict is true if the existing record has other content.
	Conflict bool
	// Err is the reason why EnqueueAll did not enqueue the notification.
	Err error
}

// NewAcceptance returns the Acceptance of a notification and its job. headers are asynq's, and may
// be nil.
func (r *Shard) NewAcceptance(id, queue string, job []byte, headers map[string]string, facts Facts) *Acceptance {
	return &Acceptance{ID: id, Queue: queue, Facts: facts, message: Message(id, r.Queue(queue), job, headers), at: r}
}

// acceptances are the notifications of one queue that share a command.
type acceptances struct {
	records *Shard
	all     []*Acceptance
}

// Len implements pipeline.Batch.
func (s *acceptances) Len() int { return len(s.all) }

// Command implements pipeline.Batch.
func (s *acceptances) Command(ctx context.Context) *redis.Cmd {
	keys, args := s.call()
	return acceptScript.EvalSha(ctx, s.records.client.Pipeline(), keys, args...) // the pipeline only builds the command and is not sent
}

// call returns the keys and arguments of acceptScript.
func (s *acceptances) call() (keys []string, args []any) {
	queue, now, shard := s.all[0].Queue, time.Now(), s.records.Shard
	keys = append(make([]string, 0, 5+2*len(s.all)), shard.QueueKey(queue, "pending"), shard.QueueKey(queue, "scheduled"), shard.IdleKey(queue), shard.Key("counts"), shard.QueueKey(queue, "due"))
	args = append(make([]any, 0, 1+7*len(s.all)), queue)
	task, record, instant := shard.QueueKey(queue, "t:"), shard.Key("id:"), any(now.UnixNano())
	for _, a := range s.all {
		due := int64(0)
		if a.Facts.NotBefore.After(now) {
			due = a.Facts.NotBefore.UnixMicro()
		}
		keys = append(keys, task+a.ID, record+a.ID)
		fields := a.Facts.fields()
		args = append(append(args, a.message, a.ID, instant, due, len(fields)), fields...)
	}
	return keys, args
}

// Read implements pipeline.Batch. If Redis refuses the batch because of a key, Read repeats the
// command for each notification alone, because Redis may accept the other notifications.
func (s *acceptances) Read(ctx context.Context, cmd *redis.Cmd) ([]error, error) {
	if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		keys, args := s.call()
		cmd = acceptScript.Eval(ctx, s.records.client, keys, args...)
	}
	replies, err := cmd.Slice()
	errs := make([]error, len(s.all))
	switch {
	case err == nil && len(replies) != len(s.all):
		return nil, fmt.Errorf("got %d answers of Redis for %d new notifications", len(replies), len(s.all))
	case err == nil:
		for i, a := range s.all {
			errs[i] = a.read(replies[i])
		}
		return errs, nil
	case len(s.all) == 1 || !redisreply.OfItsKeys(err):
		return nil, err
	}
	pipe := s.records.client.Pipeline()
	cmds := make([]*redis.Cmd, len(s.all))
	for i, a := range s.all {
		cmds[i] = (&acceptances{s.records, []*Acceptance{a}}).Command(ctx)
		_ = pipe.Process(ctx, cmds[i]) // the pipeline stores it
	}
	_, _ = pipeline.Exec(ctx, pipe) // each command has its own error
	for i, a := range s.all {
		replies, err := cmds[i].Slice()
		if errs[i] = err; err == nil {
			errs[i] = a.read(replies[0])
		}
	}
	return errs, nil
}

// read reads acceptScript's reply of the notification.
func (a *Acceptance) read(reply any) error {
	switch known := reply.(type) {
	case error:
		return known
	case []any:
		state, _ := known[0].(string)
		a.State, a.Conflict = State(state), known[1] == int64(1)
	}
	return nil
}

// An Acceptor stores the records and the jobs of new notifications. It is safe for concurrent use.
type Acceptor struct {
	records *Records
	batches *pipeline.Batches[*acceptances]
}

// NewAcceptor returns an Acceptor.
func (r *Records) NewAcceptor() *Acceptor {
	return &Acceptor{r, pipeline.NewBatches[*acceptances](r.client)}
}

// Enqueue enqueues a new notification. If a record has its ID already, Enqueue sets State and
// Conflict instead.
func (o *Acceptor) Enqueue(ctx context.Context, a *Acceptance) error {
	return o.batches.Do(ctx, a.at.QueueKey(a.Queue, "pending"), a.at.Queue(a.Queue),
		func() *acceptances { return &acceptances{records: a.at} },
		func(s *acceptances) { s.all = append(s.all, a) })
}

// EnqueueAll enqueues the notifications in one round trip, each like Enqueue, and sets the Err of
// each.
func (o *Acceptor) EnqueueAll(ctx context.Context, batch []*Acceptance) {
	var batches []*acceptances // for each shard's queue, in the order of the notifications
	open := make(map[string]*acceptances)
	for _, a := range batch {
		s := open[a.at.Queue(a.Queue)]
		if s == nil || len(s.all) == pipeline.MaxShared {
			s = &acceptances{records: a.at}
			open[a.at.Queue(a.Queue)], batches = s, append(batches, s)
		}
		s.all = append(s.all, a)
	}
	pipe := o.records.client.Pipeline()
	cmds := make([]*redis.Cmd, len(batches))
	for i, s := range batches {
		cmds[i] = s.Command(ctx)
		_ = pipe.Process(ctx, cmds[i]) // the pipeline stores it
	}
	_, _ = pipeline.Exec(ctx, pipe) // each command has its own error
	for i, s := range batches {
		errs, err := s.Read(ctx, cmds[i])
		for i, a := range s.all {
			if a.Err = err; err == nil {
				a.Err = errs[i]
			}
		}
	}
}
