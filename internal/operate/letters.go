package operate

import (
	"context"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/push"
)

// Letters returns a part of the dead letters that it sees, without their jobs, of about so
// many, and the cursor that the next call goes on from. Looked are how many there were.
func (o *Operator) Letters(ctx context.Context, cursor string, most int) (letters []ledger.Letter, looked int, next string, err error) {
	if err := o.may(Look); err != nil {
		return nil, 0, "", err
	}
	found, next, err := o.s.letters(ctx, cursor, most)
	letters = make([]ledger.Letter, 0, len(found))
	for _, l := range found {
		if o.Sees(l.App) {
			l.Job = nil
			letters = append(letters, *l)
		}
	}
	return letters, len(found), next, err
}

// letters is LettersFrom, and names whose the notifications are.
func (s *Service) letters(ctx context.Context, cursor string, most int) (all []*ledger.Letter, next string, err error) {
	all, next, err = s.with.Records.LettersFrom(ctx, cursor, most)
	for _, l := range all {
		if job, err := push.Decode(l.Job); err == nil {
			l.App, l.User, l.Category = job.Notification.App, job.Notification.User, job.Notification.Category
		}
	}
	return all, next, err
}

// A LetterSelection selects dead letters. Each field matches any when it is zero.
type LetterSelection struct {
	App, Category, Reason string
	Since                 time.Duration // how long ago it ended at most
}

// Matches reports whether the dead letter is selected at that instant.
func (s LetterSelection) Matches(l *ledger.Letter, now time.Time) bool {
	return (s.App == "" || s.App == l.App) && (s.Category == "" || s.Category == l.Category) && (s.Reason == "" || s.Reason == l.Reason) &&
		(s.Since == 0 || now.Sub(l.At) <= s.Since)
}

// A DeadLetter is one with what its job holds; nil where that cannot be read.
type DeadLetter struct {
	*ledger.Letter
	Notification *push.Notification `json:"notification,omitempty"`
}

// Letter returns the dead letter with that ID, whole, or ledger.ErrNoLetter.
func (o *Operator) Letter(ctx context.Context, id string) (*DeadLetter, error) {
	if err := o.may(Look); err != nil {
		return nil, err
	}
	l, err := o.letter(ctx, id)
	if err != nil {
		return nil, err
	}
	shown := &DeadLetter{Letter: l}
	if job, err := push.Decode(l.Job); err == nil {
		shown.Notification = job.Notification
	}
	return shown, nil
}

// Requeue has a dead letter's notification sent again. Its errors are those of
// push.Producer.
func (o *Operator) Requeue(ctx context.Context, id string) error {
	return o.act(ctx, Requeue, id, o.s.with.Producer.Requeue)
}

// Purge deletes a dead letter, or returns ledger.ErrNoLetter.
func (o *Operator) Purge(ctx context.Context, id string) error {
	return o.act(ctx, Purge, id, o.s.purge)
}

func (s *Service) purge(ctx context.Context, id string) error {
	there, err := s.with.Records.Purge(ctx, id)
	if err == nil && !there {
		return ledger.ErrNoLetter
	}
	return err
}

// act does that to a dead letter.
func (o *Operator) act(ctx context.Context, a *Action, id string, do func(context.Context, string) error) error {
	if err := o.may(a); err != nil {
		return err
	}
	if err := o.actOn(ctx, id, do); err != nil {
		return err
	}
	o.did(ctx, a, o.entryOn(ctx, []string{id}))
	return nil
}

func (o *Operator) actOn(ctx context.Context, id string, do func(context.Context, string) error) error {
	if err := o.knowsLetter(ctx, id); err != nil {
		return err
	}
	defer o.s.notifications.forget(id)
	return do(ctx, id)
}

// RequeueEach has dead letters' notifications sent again, and returns what became of each.
func (o *Operator) RequeueEach(ctx context.Context, ids []string) []error {
	return o.each(ctx, RequeueEach, ids, func(ctx context.Context, id string) error { return o.actOn(ctx, id, o.s.with.Producer.Requeue) })
}

// PurgeEach deletes dead letters, and returns what became of each.
func (o *Operator) PurgeEach(ctx context.Context, ids []string) []error {
	return o.each(ctx, PurgeEach, ids, func(ctx context.Context, id string) error { return o.actOn(ctx, id, o.s.purge) })
}
