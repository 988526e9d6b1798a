package push

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pushpace/pushpace/internal/store"
)

// A State says where a notification is. Its method Ended reports whether it has ended in
// that state, and Dead whether it is then kept as a dead letter.
type State = store.State

// The states. Every notification that was accepted is Waiting until it has
// ended in exactly one of the others.
const (
	Waiting       State = store.Waiting
	Delivered     State = store.Delivered     // at least one target's provider took it
	Undeliverable State = store.Undeliverable // every target's token is dead
	Rejected      State = store.Rejected      // refused for good: payload, app or configuration
	Exhausted     State = store.Exhausted     // attempts or retry time used up
	Expired       State = store.Expired
	Cancelled     State = store.Cancelled
	Superseded    State = store.Superseded
	Muted         State = store.Muted    // its user, its category or both are muted
	Digested      State = store.Digested // told of in another's push
)

// DefaultRetention is how long an ID is known where no retention is given.
const DefaultRetention = store.DefaultRetention

// ErrConflict means that the ID is known as another notification's: of another
// user, or with other content. Nothing was enqueued.
var ErrConflict = store.ErrConflict

// ErrUnknownID means that no notification has that ID, or that it was
// forgotten since.
var ErrUnknownID = store.ErrUnknownID

// A Ref names a notification: by its ID, and where several users have that, by the App and
// User too, or one of them. One that is "" is any.
type Ref = store.Ref

// ErrAmbiguous means that notifications of several users have that ID, each in a shard of
// its own: see Producer.
var ErrAmbiguous = store.ErrAmbiguous

// An AmbiguousError is ErrAmbiguous. Its Choices, each a Ref, name the notifications.
type AmbiguousError = store.AmbiguousError

// ErrUnderWay means that a worker has the notification in its hands right now.
var ErrUnderWay = store.ErrUnderWay

// ErrEnded means that the notification has ended already.
var ErrEnded = store.ErrEnded

// An EndedError is ErrEnded, and says how.
type EndedError struct{ State State }

// Error implements error.
func (e *EndedError) Error() string { return (&store.EndedError{State: e.State}).Error() }

// Unwrap returns ErrEnded.
func (e *EndedError) Unwrap() error { return ErrEnded }

// A CarriesError means that the notification's push is to tell of Others too, which have
// ended as Digested.
type CarriesError = store.CarriesError

// A Status is what a producer can know of a notification.
type Status struct {
	ID    string `json:"id"`
	State State  `json:"state"`
	// App, User and Category are the notification's.
	App      string    `json:"app,omitempty"`
	User     string    `json:"user,omitempty"`
	Category string    `json:"category,omitempty"`
	Queue    string    `json:"queue"`
	Accepted time.Time `json:"accepted_at"`
	// NotBefore and ExpiresAt are the notification's; zero for none.
	NotBefore time.Time `json:"not_before,omitzero"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// Deferrals is how often it was put off; Until, Scope and Rule tell of the
	// last time.
	Deferrals int       `json:"deferrals"`
	Until     time.Time `json:"until,omitzero"`
	Scope     string    `json:"scope,omitempty"`
	Rule      string    `json:"rule,omitempty"`
	// Attempts is how often it was sent: 1 for what was delivered at once.
	Attempts int `json:"attempts"`
	// FirstAttempt is when the first of them was over.
	FirstAttempt time.Time `json:"first_attempt,omitzero"`
	// Outcomes are the last ones of each target, in the order of the targets.
	Outcomes []TargetOutcome `json:"outcomes,omitempty"`
	// Error is the last attempt's.
	Error string    `json:"error,omitempty"`
	Ended time.Time `json:"ended_at,omitzero"`
	// Into is the notification whose push tells of this one, which is Digested. Told is how
	// many others its own push tells of, by now while it waits.
	Into string `json:"into,omitempty"`
	Told int    `json:"digest,omitempty"`
	// Job is where asynq has its job: pending, active, scheduled or retry; empty
	// when it has none.
	Job string `json:"job,omitempty"`
}

// A TargetOutcome is what became of one target.
type TargetOutcome struct {
	Platform Platform `json:"platform,omitempty"`
	// TokenEnd is the end of the target's token or FID: see Hint.
	TokenEnd string `json:"token_end,omitempty"`
	// Kind and Reason are the outcome's; "" when nothing is known to have been sent
	// to it.
	Kind   string `json:"kind,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Ambiguous says that the provider may have taken it: its answer was lost, or
	// the worker that sent it crashed.
	Ambiguous bool `json:"ambiguous,omitempty"`
	// ProviderID is the provider's own name for what it took: APNs' apns-id, or
	// FCM's message name.
	ProviderID string `json:"provider_id,omitempty"`
}

// Status answers where the notification is, or ErrUnknownID or an *AmbiguousError.
func (p *Producer) Status(ctx context.Context, id string) (*Status, error) {
	return p.StatusOf(ctx, Ref{ID: id})
}

// StatusOf is Status of the one that is named.
func (p *Producer) StatusOf(ctx context.Context, ref Ref) (*Status, error) {
	r, at, err := p.records.Lookup(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	s := &Status{
		ID: ref.ID, State: r.State, App: r.App, User: r.User, Category: r.Category, Queue: r.Queue,
		Accepted: r.Accepted, NotBefore: r.NotBefore, ExpiresAt: r.ExpiresAt,
		Deferrals: r.Deferrals, Until: r.Until, Scope: r.Scope, Rule: r.Rule,
		Attempts: r.Attempts, FirstAttempt: r.FirstAttempt, Error: r.Error, Ended: r.Ended, Into: r.Into, Told: r.Told,
	}
	for _, o := range r.Outcomes {
		s.Outcomes = append(s.Outcomes, TargetOutcome(o))
	}
	if !r.State.Ended() {
		if s.Job, err = at.JobState(ctx, r.Queue, ref.ID); err != nil {
			return nil, fmt.Errorf("status: %w", err)
		}
	}
	return s, nil
}

// Cancel ends a notification that waits. The slot that it holds of its user's
// limits is given back by a worker, within about a second while one runs, also
// when this process crashes meanwhile. It answers ErrUnknownID, an *EndedError,
// ErrUnderWay or an *AmbiguousError when there is nothing to cancel, or not now, or one is
// to be chosen, and a *CarriesError for one whose push is to tell of others too. After another error it may be cancelled or not; calling it again is safe.
func (p *Producer) Cancel(ctx context.Context, id string) error {
	return p.CancelOf(ctx, Ref{ID: id})
}

// CancelOf is Cancel of the one that is named.
func (p *Producer) CancelOf(ctx context.Context, ref Ref) error {
	return p.cancel(ctx, ref, false)
}

// CancelWithOthers is CancelOf also of one whose push is to tell of others, which nobody is
// told of then.
func (p *Producer) CancelWithOthers(ctx context.Context, ref Ref) error {
	return p.cancel(ctx, ref, true)
}

func (p *Producer) cancel(ctx context.Context, ref Ref, others bool) error {
	var taken *store.Taken
	at, err := p.records.Find(ctx, ref)
	if err == nil {
		taken, err = at.Take(ctx, ref, store.How{State: Cancelled, Read: Contents, Others: others})
	}
	if ended := new(store.EndedError); errors.As(err, &ended) {
		err = &EndedError{ended.State}
	}
	if err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	_ = store.Leave(ctx, []*store.Taken{taken}) // else it takes a little longer
	return nil
}
