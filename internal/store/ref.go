package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pushpace/pushpace/internal/base/redisreply"
)

// A Ref names a notification or a dead letter: by its ID, and where several users have that,
// by the App and User too, or one of them. One that is "" is any.
type Ref struct {
	ID   string `json:"id"`
	App  string `json:"app,omitempty"`
	User string `json:"user,omitempty"`
}

// names reports whether what is of that app and user may be meant.
func (f Ref) names(app, user string) bool {
	return (f.App == "" || f.App == app) && (f.User == "" || f.User == user)
}

// ErrUnknownID means that no notification has that ID, or that it was
// forgotten since.
var ErrUnknownID = errors.New("the ID is not known")

// ErrAmbiguous means that notifications of several users, in several shards, have the ID.
var ErrAmbiguous = errors.New("notifications of several users have this ID: say the app and the user")

// An AmbiguousError is ErrAmbiguous, and says who they are.
type AmbiguousError struct {
	// Choices name one each, and are sorted by app and user. Those of a dead letter that
	// cannot be read are "".
	Choices []Ref
}

// Error implements error.
func (e *AmbiguousError) Error() string { return ErrAmbiguous.Error() }

// Unwrap returns ErrAmbiguous.
func (e *AmbiguousError) Unwrap() error { return ErrAmbiguous }

// where answers the shards in which what is named may be: one where the app and the user
// are known, else all.
func (r *Records) where(ctx context.Context, ref Ref) ([]*Shard, error) {
	if ref.App == "" || ref.User == "" {
		return r.All(ctx)
	}
	at, err := r.Of(ctx, ref.App, ref.User)
	if err != nil {
		return nil, err
	}
	return []*Shard{at}, nil
}

// A match is what a shard has under an ID, and whose it is.
type match[T any] struct {
	Ref
	at    *Shard
	value T
}

// search answers what is named and of an app that is seen in these shards, ErrUnknownID or
// an *AmbiguousError. ask answers what a shard has under the ID, and its app and user, or
// ErrUnknownID. What lies in a shard that does not answer is left out where another has what
// is named.
func search[T any](ctx context.Context, shards []*Shard, ref Ref, sees func(app string) bool, ask func(ctx context.Context, at *Shard) (value T, app, user string, err error)) (match[T], error) {
	type answer struct {
		match[T]
		err error // ErrUnknownID, or of what the shard has
	}
	all, failed := askAll(ctx, shards, func(ctx context.Context, at *Shard) (answer, error) {
		value, app, user, err := ask(ctx, at)
		if redisreply.Of(err) != redisreply.None {
			return answer{}, err
		}
		return answer{match[T]{Ref{ref.ID, app, user}, at, value}, err}, nil
	})
	var found []match[T]
	for _, a := range all {
		switch {
		case a.err == nil && ref.names(a.App, a.User) && (sees == nil || sees(a.App)):
			found = append(found, a.match)
		case a.err != nil && !errors.Is(a.err, ErrUnknownID):
			failed = cmp.Or(failed, a.err)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		choice := &AmbiguousError{}
		for _, m := range found {
			choice.Choices = append(choice.Choices, m.Ref)
		}
		slices.SortFunc(choice.Choices, func(a, b Ref) int { return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.User, b.User)) })
		return match[T]{}, choice
	case failed != nil: // it may be where nobody answers
		return match[T]{}, failed
	}
	return match[T]{}, ErrUnknownID
}

// Find returns the shard that knows the notification, or ErrUnknownID or an
// *AmbiguousError. Where it can be in one shard alone, Find asks nobody.
func (r *Records) Find(ctx context.Context, ref Ref) (*Shard, error) {
	at, err := r.where(ctx, ref)
	if err != nil {
		return nil, err
	}
	if len(at) == 1 {
		return at[0], nil
	}
	m, err := r.find(ctx, ref, nil)
	return m.at, err
}

// Resolve answers the notification's whole name. One of an app that is not seen is as one
// that is not there.
func (r *Records) Resolve(ctx context.Context, ref Ref, sees func(app string) bool) (Ref, error) {
	m, err := r.find(ctx, ref, sees)
	return m.Ref, err
}

func (r *Records) find(ctx context.Context, ref Ref, sees func(app string) bool) (match[struct{}], error) {
	shards, err := r.where(ctx, ref)
	if err != nil {
		return match[struct{}]{}, err
	}
	return search(ctx, shards, ref, sees, func(ctx context.Context, at *Shard) (none struct{}, app, user string, err error) {
		fields, err := r.client.HMGet(ctx, at.Key("id:"+ref.ID), "state", "of").Result()
		switch {
		case err != nil:
			return none, "", "", fmt.Errorf("record of a notification: %w", err)
		case fields[0] == nil:
			return none, "", "", ErrUnknownID
		}
		of, _ := fields[1].(string)
		app, user, _ = splitOf(of)
		return none, app, user, nil
	})
}

// Lookup answers the notification's record and the shard that has it, or ErrUnknownID or
// an *AmbiguousError.
func (r *Records) Lookup(ctx context.Context, ref Ref) (*Record, *Shard, error) {
	shards, err := r.where(ctx, ref)
	if err != nil {
		return nil, nil, err
	}
	m, err := search(ctx, shards, ref, nil, func(ctx context.Context, at *Shard) (record *Record, app, user string, err error) {
		if record, err = at.Lookup(ctx, ref.ID); err != nil {
			return nil, "", "", err
		}
		return record, record.App, record.User, nil
	})
	return m.value, m.at, err
}

// Letter answers the dead letter with its job and the shard that has it, or ErrNoLetter or
// an *AmbiguousError. read reads its job's payload. One of an app that is not seen is as
// one that is not there; sees may be nil for all.
func (r *Records) Letter(ctx context.Context, ref Ref, read func(payload []byte) (Contents, error), sees func(app string) bool) (*Letter, *Shard, error) {
	shards, err := r.where(ctx, ref)
	if err != nil {
		return nil, nil, err
	}
	ask := func(ctx context.Context, at *Shard) (l *Letter, app, user string, err error) {
		if l, err = at.Letter(ctx, ref.ID); errors.Is(err, ErrNoLetter) {
			return nil, "", "", ErrUnknownID
		}
		if err != nil {
			return nil, "", "", err
		}
		its := *l
		its.Tell(read) // what cannot be read, and was not accepted, is no user's
		return l, its.App, its.User, nil
	}
	m, err := search(ctx, shards, ref, sees, ask)
	if all, _ := r.All(ctx); errors.Is(err, ErrUnknownID) && len(shards) < len(all) {
		if other, failed := search(ctx, all, ref, sees, ask); failed == nil { // which no Producer has queued
			m, err = other, nil
		}
	}
	if errors.Is(err, ErrUnknownID) {
		err = ErrNoLetter
	}
	return m.value, m.at, err
}

// Purge deletes the dead letter, or answers ErrNoLetter or an *AmbiguousError. It looks for
// it as Letter does.
func (r *Records) Purge(ctx context.Context, ref Ref, read func(payload []byte) (Contents, error)) error {
	_, at, err := r.Letter(ctx, ref, read, nil)
	if err != nil {
		return err
	}
	there, err := at.Purge(ctx, ref.ID)
	if err == nil && !there {
		return ErrNoLetter
	}
	return err
}
