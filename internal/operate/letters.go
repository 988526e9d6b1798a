package operate

import (
	"context"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// A LetterPage is a part of the dead letters.
type LetterPage struct {
	Letters []store.Letter `json:"dead_letters"`
	// Next is the cursor of the rest; "" at the end.
	Next string `json:"next,omitempty"`
	// Unread are the numbers of the shards that did not answer, which the list skips.
	Unread []int `json:"unread_shards,omitempty"`
	// Looked is the number of dead letters that were read, of all apps.
	Looked int `json:"-"`
}

// Letters reads dead letters from the cursor on; most is their approximate number. It returns the
// letters that the principal sees, without their jobs.
func (o *Operator) Letters(ctx context.Context, cursor string, most int) (*LetterPage, error) {
	if err := o.may(Look); err != nil {
		return nil, err
	}
	found, next, err := o.s.letters(ctx, cursor, most)
	page := &LetterPage{Letters: make([]store.Letter, 0, len(found)), Next: next, Looked: len(found)}
	for _, l := range found {
		if o.Sees(l.App) {
			l.Job = nil
			page.Letters = append(page.Letters, *l)
		}
	}
	page.Unread, err = store.Unreachable(err)
	return page, err
}

// letters is Records.LettersFrom, and completes the letters' apps and users from their jobs.
func (s *Service) letters(ctx context.Context, cursor string, most int) (all []*store.Letter, next string, err error) {
	all, next, err = s.with.Records.LettersFrom(ctx, cursor, most)
	for _, l := range all {
		l.FillOwner(push.Contents)
	}
	return all, next, err
}

// A LetterSelection selects dead letters. Each field matches any when it is zero.
type LetterSelection struct {
	App, Category, Reason string
	Since                 time.Duration // the longest time since the end
}

// Matches reports whether the dead letter is selected at that instant.
func (s LetterSelection) Matches(l *store.Letter, now time.Time) bool {
	return (s.App == "" || s.App == l.App) && (s.Category == "" || s.Category == l.Category) && (s.Reason == "" || s.Reason == l.Reason) &&
		(s.Since == 0 || now.Sub(l.At) <= s.Since)
}

// A DeadLetter is a dead letter and the notification of its job. Notification is nil if the job
// cannot be read.
type DeadLetter struct {
	*store.Letter
	Notification *push.Notification `json:"notification,omitempty"`
}

// Letter returns the whole dead letter, or store.ErrNoLetter or a *push.AmbiguousError.
func (o *Operator) Letter(ctx context.Context, ref push.Ref) (*DeadLetter, error) {
	if err := o.may(Look); err != nil {
		return nil, err
	}
	l, err := o.letter(ctx, ref)
	if err != nil {
		return nil, err
	}
	shown := &DeadLetter{Letter: l}
	if job, err := push.Decode(l.Job); err == nil {
		shown.Notification = job.Notification
	}
	return shown, nil
}

// Requeue puts a dead letter's notification back on its queue. Its errors are Producer.RequeueOf's.
func (o *Operator) Requeue(ctx context.Context, ref push.Ref) error {
	return o.act(ctx, Requeue, ref, o.s.with.Producer.RequeueOf)
}

// Purge deletes a dead letter, or returns store.ErrNoLetter or a *push.AmbiguousError.
func (o *Operator) Purge(ctx context.Context, ref push.Ref) error {
	return o.act(ctx, Purge, ref, o.s.purge)
}

func (s *Service) purge(ctx context.Context, ref push.Ref) error {
	return s.with.Records.Purge(ctx, ref, push.Contents)
}

// act calls do for a dead letter, and logs and records the action.
func (o *Operator) act(ctx context.Context, a *Action, ref push.Ref, do func(context.Context, push.Ref) error) error {
	if err := o.may(a); err != nil {
		return err
	}
	if err := o.actOn(ctx, ref, do); err != nil {
		return err
	}
	o.did(ctx, a, o.entryOn(ctx, []push.Ref{ref}))
	return nil
}

func (o *Operator) actOn(ctx context.Context, ref push.Ref, do func(context.Context, push.Ref) error) error {
	ref, err := o.resolveLetter(ctx, ref)
	if err != nil {
		return err
	}
	defer o.s.forgetID(ref.ID)
	return do(ctx, ref)
}

// RequeueEach puts dead letters' notifications back on their queues, and returns the errors.
func (o *Operator) RequeueEach(ctx context.Context, refs []push.Ref) []error {
	return o.each(ctx, RequeueEach, refs, func(ctx context.Context, ref push.Ref) error {
		return o.actOn(ctx, ref, o.s.with.Producer.RequeueOf)
	})
}

// PurgeEach deletes dead letters, and returns the errors.
func (o *Operator) PurgeEach(ctx context.Context, refs []push.Ref) []error {
	return o.each(ctx, PurgeEach, refs, func(ctx context.Context, ref push.Ref) error { return o.actOn(ctx, ref, o.s.purge) })
}
