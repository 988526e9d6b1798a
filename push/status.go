package push

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pushpace/pushpace/internal/store"
)

// A State is the state of a notification. Its method Ended reports whether it is final, and
// Dead whether the notification then is a dead letter.
type State = store.State

// The states. Every accepted notification is Waiting until it ends in exactly one of the other states.
const (
	Waiting       State = store.Waiting
	Delivered     State = store.Delivered     // at least one target's provider took it
	Undeliverable State = store.Undeliverable // every target's token is dead
	Rejected      State = store.Rejected      // refused for good: payload, app or configuration
	Exhausted     State = store.Exhausted     // attempts or retry time used up
	Expired       State = store.Expired
	Cancelled     State = store.Cancelled
	Superseded    State = store.Superseded
	Muted         State = store.Muted    // its app, user, category or a combination of these is muted
	Digested      State = store.Digested // another notification's push carries it
)

// DefaultRetention is how long an ID is known if no retention is given.
const DefaultRetention = store.DefaultRetention

// ErrConflict means that the ID belongs to a notification of a different user, or with different content.
// Nothing was enqueued.
var ErrConflict = store.ErrConflict

// ErrUnknownID means that no notification has that ID, or that its retention is over.
var ErrUnknownID = store.ErrUnknownID

// A Ref names a notification by its ID. If notifications of several users have this ID, App, User
// or both select one; "" matches any.
type Ref = store.Ref

// ErrAmbiguous means that notifications of several users have that ID, in different shards:
// see Producer.
var ErrAmbiguous = store.ErrAmbiguous

// An AmbiguousError is ErrAmbiguous. Its Choices, each a Ref, name the notifications.
type AmbiguousError = store.AmbiguousError

// ErrUnderWay means that the notification is in flight.
var ErrUnderWay = store.ErrInFlight

// ErrEnded means that the notification has ended already.
var ErrEnded = store.ErrEnded

// An EndedError is ErrEnded with the final state.
type EndedError struct{ State State }

// Error implements error.
func (e *EndedError) Error() string { return (&store.EndedError{State: e.State}).Error() }

// Unwrap returns ErrEnded.
func (e *EndedError) Unwrap() error { return ErrEnded }

// A CarriesError means that the notification's push contains Others, which have ended as
// Digested.
type CarriesError = store.CarriesError

// A Status is the status of a notification for producers.
type Status struct {
	ID    string `json:"id"`
	State State  `json:"state"`
	// App, User and Category are the notification's.
	App      string    `json:"app,omitempty"`
	User     string    `json:"user,omitempty"`
	Category string    `json:"category,omitempty"`
	Queue    string    `json:"queue"`
	Accepted time.Time `json:"accepted_at"`
	// NotBefore and ExpiresAt are the notification's; zero if not set.
	NotBefore time.Time `json:"not_before,omitzero"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// Deferrals is the number of deferrals; Until, Scope and Rule describe the last.
	Deferrals int       `json:"deferrals"`
	Until     time.Time `json:"until,omitzero"`
	Scope     string    `json:"scope,omitempty"`
	Rule      string    `json:"rule,omitempty"`
	// Attempts is the number of sends: 1 for a notification that was delivered at once.
	Attempts int `json:"attempts"`
	// FirstAttempt is the end of the first attempt.
	FirstAttempt time.Time `json:"first_attempt,omitzero"`
	// Outcomes are the last outcome of each target, in the order of the targets.
	Outcomes []TargetOutcome `json:"outcomes,omitempty"`
	// Error is the error of the last attempt.
	Error string    `json:"error,omitempty"`
	Ended time.Time `json:"ended_at,omitzero"`
	// Into is the ID of the notification that carries a Digested one. Told is the number of other
	// notifications that the push of this one carries; while it waits, the number so far.
	Into string `json:"into,omitempty"`
	Told int    `json:"digest,omitempty"`
	// Job is the state of its asynq job: pending, active, scheduled or retry; empty
	// without a job.
	Job string `json:"job,omitempty"`
}

// A TargetOutcome is the outcome of one target.
type TargetOutcome struct {
	Platform Platform `json:"platform,omitempty"`
	// TokenEnd is the end of the target's token, or FIDEnd that of its FID: see Hint.
	TokenEnd string `json:"token_end,omitempty"`
	FIDEnd   string `json:"fid_end,omitempty"`
	// Kind and Reason describe the outcome; "" if no push to the target is known.
	Kind   string `json:"kind,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Ambiguous is true if the provider may have accepted a push: its answer was lost, or the worker that
	// sent it crashed.
	Ambiguous bool `json:"ambiguous,omitempty"`
	// ProviderID is the provider's ID of the accepted push: APNs' apns-id, FCM's
	// message name.
	ProviderID string `json:"provider_id,omitempty"`
}

// Status returns the notification's status, or ErrUnknownID or an *AmbiguousError.
func (p *Producer) Status(ctx context.Context, id string) (*Status, error) {
	return p.StatusOf(ctx, Ref{ID: id})
}

// StatusOf is Status by a Ref.
func (p *Producer) StatusOf(ctx context.Context, ref Ref) (*Status, error) {
	r, at, err := p.records.Lookup(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	s := &Status{
		ID: ref.ID, State: r.State, App: r.App, User: r.User, Category: r.Category, Queue: r.Queue,
		Accepted: r.Accepted, NotBefore: r.NotBefore, ExpiresAt: r.ExpiresAt,
		Deferrals: r.Deferrals, Until: r.Until, Scope: r.Scope, Rule: r.Rule,
		Attempts: r.Attempts, FirstAttempt: r.FirstAttempt, Error: r.Error, Ended: r.Ended, Into: r.Into, Told: r.Carried,
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

// Cancel ends a waiting notification. A running worker gives the notification's slot in the user's
// limits back within about a second, even if this process crashes. Cancel returns ErrUnknownID, an
// *EndedError, ErrUnderWay, or an *AmbiguousError if several users have the ID. It returns a
// *CarriesError if the notification's push carries other notifications. After any other error the
// notification may be cancelled or not; calling Cancel again is safe.
func (p *Producer) Cancel(ctx context.Context, id string) error {
	return p.CancelOf(ctx, Ref{ID: id})
}

// CancelOf is Cancel by a Ref.
func (p *Producer) CancelOf(ctx context.Context, ref Ref) error {
	return p.CancelWithOthers(ctx, ref, 0)
}

// CancelWithOthers is CancelOf, also for a notification that carries others of its digest, which
// are then not sent either. The number others is the maximum. If more have joined before the call,
// nothing is cancelled, and the *CarriesError counts them.
func (p *Producer) CancelWithOthers(ctx context.Context, ref Ref, others int) error {
	var taken *store.Taken
	at, err := p.records.Find(ctx, ref)
	if err == nil {
		taken, err = at.Take(ctx, ref, store.TakeOptions{State: Cancelled, Read: Contents, Others: max(0, others)})
	}
	if ended := new(store.EndedError); errors.As(err, &ended) {
		err = &EndedError{ended.State}
	}
	if err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	_ = store.LeaveToWorkers(ctx, []*store.Taken{taken}) // if it fails, the slot is free a little later
	return nil
}
