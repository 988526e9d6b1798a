package push

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/acknowledged"
	"github.com/pushpace/pushpace/internal/base/fielderrors"
	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/store"
)

// A Producer enqueues notifications. Once Enqueue has returned without an error, the notification is safe
// on the queue and the caller may forget it. A Producer is safe for concurrent use.
//
// Use each ID for one user only. If two users have it, and both users are in one shard, as always with a
// single shard, the second notification is refused (ErrConflict). Otherwise both are accepted, and
// Status, Cancel and Requeue, which get only an ID, return an *AmbiguousError.
type Producer struct {
	client   redis.UniversalClient
	records  *store.Records
	acceptor *store.Acceptor
	headers  func(context.Context) map[string]string
	apps     []string // sorted; nil for any
	zone     string   // for notifications that need a zone and name none
	accepted *instants
}

// instants makes the acceptance times of a Producer, in whole µs, each later than the previous: a user's
// waiting notifications are sorted by these times.
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

// NewProducer returns a producer on the client, which the caller closes. prefix begins all keys; empty
// means "pushpace". An ID is known for the retention after its acceptance; 0 means DefaultRetention.
// prefix and retention must equal the workers'.
//
// A client needs ContextTimeoutEnabled: without it, a call that Redis never answers lasts
// longer than its context. A redis.ClusterClient needs a ClusterStateReloadInterval of a few
// seconds: it notices a failover when an Enqueue fails, or after that interval. The first
// NewProducer with a ClusterClient logs missing settings in slog's default log. If the workers
// have redis.acknowledged, call Acknowledged with the client.
func NewProducer(client redis.UniversalClient, prefix string, retention time.Duration) *Producer {
	if cluster, ok := pipeline.OfCluster(client); ok {
		warn.Do(func() {
			for _, setting := range lacking(cluster.Options()) {
				slog.Warn("push.NewProducer: change a setting of the client of the Redis Cluster", "set", setting)
			}
		})
	}
	records := store.NewRecords(client, prefix, retention)
	return &Producer{client: client, records: records, acceptor: records.NewAcceptor(), accepted: new(instants)}
}

// WithShards returns a producer for n shards: the workers' redis.shards. 0 means 8 on a Cluster and 1
// elsewhere. If the number differs from the workers', every call returns an error.
func (p *Producer) WithShards(n int) *Producer {
	own := *p
	own.records = p.records.WithShards(n)
	own.acceptor = own.records.NewAcceptor()
	return &own
}

// Acknowledged makes each Enqueue on the client wait until that number of replicas has the write, as
// redis.acknowledged does for the workers and the API: then no failover loses an accepted notification.
// Call it before the client is used. All other writes of the client wait for the replicas too, except
// transactions (TxPipelined). It returns an error unless the client is a *redis.Client or a
// *redis.ClusterClient.
func Acknowledged(client redis.UniversalClient, replicas int) error {
	return acknowledged.Writes(client, replicas)
}

// warn runs once in a program, for all of its producers.
var warn sync.Once

// lacking returns the settings that a Cluster's client should change.
func lacking(o *redis.ClusterOptions) (settings []string) {
	if !o.ContextTimeoutEnabled {
		settings = append(settings, "ContextTimeoutEnabled: true")
	}
	if o.ClusterStateReloadInterval > 10*time.Second {
		settings = append(settings, "ClusterStateReloadInterval: time.Second")
	}
	return settings
}

// WithHeaders returns a producer that calls headers with the context of each Enqueue, and adds the result
// to the job's asynq headers. Workers read the trace context, W3C's traceparent. nil adds no headers.
func (p *Producer) WithHeaders(headers func(context.Context) map[string]string) *Producer {
	own := *p
	own.headers = headers
	return &own
}

// A Receipt is the result of an Enqueue.
type Receipt struct {
	// ID of the notification, generated if it had no ID.
	ID string
	// Known is true if the ID was accepted before, in any state: nothing was enqueued.
	Known bool
}

// Enqueue validates the notification and puts it on its priority's queue. For an invalid notification the
// error is of type Faults. After any other error the notification may have been accepted: enqueue it
// again with the receipt's ID, and it is delivered once.
//
// The ID is known for the retention: with a known ID and a different user or content, the error is
// ErrConflict.
func (p *Producer) Enqueue(ctx context.Context, n *Notification) (Receipt, error) {
	now := p.accepted.next()
	accepted, err := p.accept(ctx, n, now)
	receipt := Receipt{ID: accepted.ID}
	if err != nil {
		return receipt, err
	}
	a, err := p.acceptance(ctx, &Job{Notification: &accepted, AcceptedAt: now})
	if err != nil {
		return receipt, err
	}
	if err := p.acceptor.Enqueue(ctx, a); err != nil {
		return receipt, p.refused(ctx, err)
	}
	if a.Conflict {
		return receipt, ErrConflict
	}
	receipt.Known = a.State != ""
	return receipt, nil
}

// refused returns the error of an Enqueue after an error of Redis. It makes a Cluster's client look up
// the nodes: the client does so by itself when a hash slot moves, but not when a node is gone.
func (p *Producer) refused(ctx context.Context, err error) error {
	if cluster, ok := pipeline.OfCluster(p.client); ok {
		cluster.ReloadState(ctx)
	}
	return fmt.Errorf("enqueue: %w", err)
}

// acceptance prepares the acceptance of a new notification.
func (p *Producer) acceptance(ctx context.Context, job *Job) (*store.Acceptance, error) {
	payload, facts, err := encodeNew(job)
	if err != nil {
		return nil, err
	}
	var headers map[string]string
	if p.headers != nil {
		headers = p.headers(ctx)
	}
	n := job.Notification
	at, err := p.records.Of(ctx, n.App, n.User)
	if err != nil {
		return nil, p.refused(ctx, err)
	}
	return at.NewAcceptance(n.ID, n.Priority.Queue(), payload, headers, facts), nil
}

// encodeNew returns a new notification's job, and the facts for its record.
func encodeNew(job *Job) (payload []byte, known store.Facts, err error) {
	if payload, err = Encode(job); err != nil {
		return nil, known, err
	}
	n := job.Notification
	digest, err := contentDigest(n, payload)
	if err != nil {
		return nil, known, fmt.Errorf("enqueue: %w", err)
	}
	return payload, store.Facts{App: n.App, User: n.User, Category: n.Category, NotBefore: n.NotBefore, ExpiresAt: n.ExpiresAt, Digest: digest}, nil
}

// Accepted returns the notification as a Producer accepts it at that time: validated, with an ID,
// and with NotBefore and ExpiresAt in place of NotBeforeLocal and TTL. For an invalid
// notification its error is of type Faults.
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

var errOverdue = fielderrors.New("/expires_at", "has passed")

var errNil = fielderrors.New("", "notification: is missing")

// complete does the same as Accepted, but accepts an expired notification too.
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
	accepted.NotBefore, accepted.NotBeforeLocal = accepted.earliest(), ""
	if accepted.TTL > 0 {
		accepted.ExpiresAt, accepted.TTL = now.Add(time.Duration(accepted.TTL)), 0
		if !accepted.ExpiresAt.After(accepted.NotBefore) {
			return accepted, fielderrors.New("/ttl", "is over before not_before: it is counted from now")
		}
	}
	return accepted, nil
}

// accept does the same as Accepted, but accepts an expired notification with a known ID: the
// caller enqueues it again.
func (p *Producer) accept(ctx context.Context, n *Notification, now time.Time) (Notification, error) {
	accepted, err := p.complete(n, now)
	if err != nil || !accepted.overdue(now) {
		return accepted, err
	}
	return accepted, p.known(ctx, &accepted)
}

// known returns errOverdue if the ID is unknown.
func (p *Producer) known(ctx context.Context, n *Notification) error {
	at, err := p.records.Of(ctx, n.App, n.User)
	if err == nil {
		_, err = at.Lookup(ctx, n.ID)
	}
	if errors.Is(err, ErrUnknownID) {
		return errOverdue
	}
	if err != nil {
		return p.refused(ctx, err)
	}
	return nil
}

// ErrStillThere means that a worker has not removed the job of the last attempt.
var ErrStillThere = errors.New("requeue: the job of the last attempt is still on its queue: try again")

// Requeue puts a dead letter's notification back on its queue, with a new budget of attempts, and deletes
// the letter. Calling it again after an error is safe. It returns store.ErrNoLetter if there is no
// dead letter or the notification's state has changed since, ErrStillThere if it is too early, and an
// *AmbiguousError if several dead letters have the ID.
func (p *Producer) Requeue(ctx context.Context, id string) error {
	return p.RequeueOf(ctx, Ref{ID: id})
}

// RequeueOf is Requeue by a Ref.
func (p *Producer) RequeueOf(ctx context.Context, ref Ref) error {
	letter, at, err := p.records.Letter(ctx, ref, Contents, nil)
	if err != nil {
		return err
	}
	payload := letter.Job
	var facts *store.Facts
	if job, err := Decode(payload); err == nil {
		_, known, err := encodeNew(job)
		if err != nil {
			return err
		}
		facts = &known
		if facts.Carried = len(job.Digested); facts.Carried > 0 {
			facts.Digest = nil // no producer enqueued this content
		}
		job.Replay = true // so that the worker reads the record before it sends
		if payload, err = Encode(job); err != nil {
			return err
		}
	}
	var headers map[string]string
	if p.headers != nil {
		headers = p.headers(ctx)
	}
	for try := 0; ; try++ {
		err := at.Requeue(ctx, letter, payload, headers, facts)
		if !errors.Is(err, store.ErrJobExists) {
			return err
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
}

// requeueTries and requeuePause bound the wait for the job of the last attempt, which a worker removes
// just after it writes the letter.
const (
	requeueTries = 40
	requeuePause = 50 * time.Millisecond
)
