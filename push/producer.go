package push

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/asynqwire"
	"github.com/pushpace/pushpace/internal/base/faults"
	"github.com/pushpace/pushpace/internal/base/ledger"
)

// A Producer hands notifications over. Once Enqueue has returned without an
// error, the notification is safe on the queue and the caller may forget it.
// It is safe for concurrent use.
type Producer struct {
	client    redis.UniversalClient
	tasks     *asynq.Client
	inspector *asynq.Inspector
	records   *ledger.Records
	oneStep   *ledger.OneStep // nil on a Cluster
	headers   func(context.Context) map[string]string
	apps      []string // sorted; nil for any
	accepted  *instants
}

// instants are those at which a Producer accepts, in whole µs, each later than the
// one before: they say the order among those that wait for a user's limits.
type instants struct {
	mu   sync.Mutex
	last time.Time
}

func (i *instants) next() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now().Truncate(time.Microsecond)
	if !now.After(i.last) {
		now = i.last.Add(time.Microsecond)
	}
	i.last = now
	return now
}

// NewProducer returns a producer on the client, which stays the caller's to
// close. prefix begins all keys, and is "pushpace" when it is empty. An ID is known for
// the retention after its acceptance; 0 means DefaultRetention. Both are the workers'.
//
// A redis.ClusterClient learns that a replica has taken a master's place by an Enqueue
// that fails, and else after its ClusterStateReloadInterval, a minute by default.
func NewProducer(client redis.UniversalClient, prefix string, retention time.Duration) *Producer {
	p := &Producer{client: client, accepted: new(instants), records: ledger.NewRecords(client, prefix, retention), inspector: asynq.NewInspectorFromRedisClient(client)}
	p.tasks, p.oneStep = asynq.NewClientFromRedisClient(&enqueuer{client}), p.records.InOneStep()
	return p
}

// WithHeaders answers a producer whose jobs carry what headers answers for an
// Enqueue's context, in asynq's headers: a trace's context, as W3C's traceparent,
// is what the workers look for. nil is none.
func (p *Producer) WithHeaders(headers func(context.Context) map[string]string) *Producer {
	own := *p
	own.headers = headers
	return &own
}

// A Receipt says what became of an Enqueue.
type Receipt struct {
	// ID of the notification, generated if it had none.
	ID string
	// Known says that the ID was accepted before, whatever has become of it:
	// nothing was enqueued.
	Known bool
}

// Enqueue validates the notification and puts it on its priority's queue. A
// notification that is not valid is an error of type Faults. Any other error
// leaves open whether it was taken: enqueue it again with the same ID, the
// receipt's, and it is delivered once.
//
// The ID is known for the retention: when it comes again with another user or
// other content, the error is ErrConflict. Where record and job cannot be made in one
// step, the record comes before the job, so that a second Enqueue of the same ID
// finds it, and is confirmed after it, so that a crash in between leaves nothing
// that counts. A job that may be there twice is marked as a replay: the worker
// then looks at the record before it sends.
func (p *Producer) Enqueue(ctx context.Context, n *Notification) (Receipt, error) {
	now := p.accepted.next()
	accepted, err := p.accept(ctx, n, now)
	receipt := Receipt{ID: accepted.ID}
	if err != nil {
		return receipt, err
	}
	job := &Job{Notification: &accepted, AcceptedAt: now}
	a, payload, err := p.acceptance(ctx, job)
	if err != nil {
		return receipt, err
	}
	if p.oneStep != nil {
		if err := p.oneStep.Enqueue(ctx, a); err != nil {
			return receipt, fmt.Errorf("enqueue: %w", err)
		}
		if a.Conflict {
			return receipt, ErrConflict
		}
		if a.State != ledger.Accepting {
			receipt.Known = a.State != ""
			return receipt, nil
		}
	}
	receipt.Known, err = p.enqueueInSteps(ctx, job, a, payload)
	if cluster, ok := p.client.(*redis.ClusterClient); ok && err != nil && !errors.Is(err, ErrConflict) {
		cluster.ReloadState(ctx) // go-redis does when a node moves a slot, and not when one is gone
	}
	return receipt, err
}

// enqueueInSteps makes the record, the job, and confirms the record. It answers whether
// the ID was accepted before.
func (p *Producer) enqueueInSteps(ctx context.Context, job *Job, a *ledger.Acceptance, payload []byte) (known bool, err error) {
	n := job.Notification
	state, queue, err := p.records.Accept(ctx, a.ID, a.Queue, a.Facts)
	if err != nil {
		return false, fmt.Errorf("enqueue: %w", err)
	}
	if state != "" && state != ledger.Accepting {
		return true, nil
	}
	if job.Replay = state == ledger.Accepting; job.Replay {
		if payload, err = Encode(job); err != nil {
			return false, err
		}
	}
	there, err := p.put(ctx, n.ID, queue, payload, n.NotBefore)
	if err != nil {
		return false, err
	}
	known = there && state == ledger.Accepting
	if err := p.records.Confirm(ctx, n.ID); err != nil {
		return known, fmt.Errorf("enqueue: %w", err)
	}
	return known, nil
}

// acceptance returns a job's way to the queue, and the job as it travels.
func (p *Producer) acceptance(ctx context.Context, job *Job) (*ledger.Acceptance, []byte, error) {
	payload, facts, err := encodeNew(job)
	if err != nil {
		return nil, nil, err
	}
	n := job.Notification
	a := &ledger.Acceptance{ID: n.ID, Queue: n.Priority.Queue(), Facts: facts}
	if p.oneStep != nil { // else asynq writes it
		var headers map[string]string
		if p.headers != nil {
			headers = p.headers(ctx)
		}
		a.Message = asynqwire.Message(a.ID, a.Queue, payload, headers)
	}
	return a, payload, nil
}

// encodeNew answers a new notification's job, and what its record says of it.
func encodeNew(job *Job) (payload []byte, known ledger.Facts, err error) {
	if payload, err = Encode(job); err != nil {
		return nil, known, err
	}
	n := job.Notification
	digest, err := contentDigest(n, payload)
	if err != nil {
		return nil, known, fmt.Errorf("enqueue: %w", err)
	}
	return payload, ledger.Facts{App: n.App, User: n.User, Category: n.Category, NotBefore: n.NotBefore, ExpiresAt: n.ExpiresAt, Digest: digest}, nil
}

// Accepted answers the notification as a Producer would accept it at that instant:
// validated, with an ID, and with ExpiresAt in place of TTL. What is wrong with it
// is an error of type Faults.
func Accepted(n *Notification, now time.Time) (Notification, error) {
	accepted, err := complete(n, now)
	if err == nil && accepted.overdue(now) {
		err = errOverdue
	}
	return accepted, err
}

// overdue reports whether the notification has expired.
func (n *Notification) overdue(now time.Time) bool {
	return !n.ExpiresAt.IsZero() && !n.ExpiresAt.After(now)
}

var errOverdue = faults.New("/expires_at", "has passed")

var errNil = faults.New("", "notification: is missing")

// complete is Accepted, and takes what has expired too.
func complete(n *Notification, now time.Time) (Notification, error) {
	if n == nil {
		return Notification{}, errNil
	}
	accepted := *n
	if accepted.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return accepted, fmt.Errorf("enqueue: generate an ID: %w", err)
		}
		accepted.ID = id.String()
	}
	if err := accepted.Validate(); err != nil {
		return accepted, err
	}
	if accepted.TTL > 0 {
		accepted.ExpiresAt, accepted.TTL = now.Add(time.Duration(accepted.TTL)), 0
		if !accepted.ExpiresAt.After(accepted.NotBefore) {
			return accepted, faults.New("/ttl", "is over before not_before: it is counted from now")
		}
	}
	return accepted, nil
}

// accept is Accepted for what is handed over. What has expired and is known was
// accepted in time, and is handed over again.
func (p *Producer) accept(ctx context.Context, n *Notification, now time.Time) (Notification, error) {
	accepted, err := p.complete(n, now)
	if err != nil || !accepted.overdue(now) {
		return accepted, err
	}
	_, err = p.records.Lookup(ctx, accepted.ID)
	if errors.Is(err, ErrUnknownID) {
		return accepted, errOverdue
	}
	if err != nil {
		return accepted, fmt.Errorf("enqueue: %w", err)
	}
	return accepted, nil
}

var maxRetry = asynq.MaxRetry(asynqwire.MaxRetry)

// put puts a job on a queue, and answers whether it was there.
func (p *Producer) put(ctx context.Context, id, queue string, payload []byte, at time.Time) (bool, error) {
	task := asynq.NewTask(asynqwire.TaskType, payload)
	if p.headers != nil {
		task = asynq.NewTaskWithHeaders(asynqwire.TaskType, payload, p.headers(ctx))
	}
	options := append(make([]asynq.Option, 0, 4), asynq.TaskID(id), asynq.Queue(queue), maxRetry)
	if !at.IsZero() {
		options = append(options, asynq.ProcessAt(at))
	}
	_, err := p.tasks.EnqueueContext(ctx, task, options...)
	if errors.Is(err, asynq.ErrTaskIDConflict) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("enqueue: %w", err)
	}
	return false, nil
}

// ErrStillThere means that a worker has not put down the job of the last attempt.
var ErrStillThere = errors.New("requeue: the job of the last attempt is still there: try again")

// Requeue puts a dead letter's notification back on its queue, with a new
// budget of attempts, and deletes the letter. Calling it again after an error is
// safe. It answers ledger.ErrNoLetter when there is none, or no use for it, and
// ErrStillThere when it is too early.
func (p *Producer) Requeue(ctx context.Context, id string) error {
	letter, err := p.records.Letter(ctx, id)
	if err != nil {
		return err
	}
	payload := letter.Job
	var facts *ledger.Facts
	if job, err := Decode(payload); err == nil {
		_, known, err := encodeNew(job)
		if err != nil {
			return err
		}
		facts = &known
		job.Replay = true // the worker looks at the record before it sends
		if payload, err = Encode(job); err != nil {
			return err
		}
	}
	switch there, err := p.records.Reopen(ctx, letter, facts); {
	case err != nil:
		return err
	case !there:
		return ledger.ErrNoLetter
	}
	// Where the job of the last attempt is just about to go, its ID is taken.
	for try := 0; ; try++ {
		there, err := p.put(ctx, id, letter.Queue, payload, time.Time{})
		if err != nil {
			return err
		}
		if !there || !p.active(letter.Queue, id) {
			break
		}
		if try == requeueTries {
			return ErrStillThere
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(requeuePause):
		}
	}
	return p.records.Discard(ctx, letter)
}

const (
	requeueTries = 40
	requeuePause = 50 * time.Millisecond
)

// active reports whether a worker has the job in hand.
func (p *Producer) active(queue, id string) bool {
	info, err := p.inspector.GetTaskInfo(queue, id)
	return err != nil || info.State == asynq.TaskStateActive
}
