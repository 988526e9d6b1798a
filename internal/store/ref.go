package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pushpace/pushpace/internal/base/redisreply"
)

// A Ref names a notification or a dead letter by its ID. If several users have
// one with this ID, App, User or both select it. An empty App or User matches any.
type Ref struct {
	ID   string `json:"id"`
	App  string `json:"app,omitempty"`
	User string `json:"user,omitempty"`
}

// matches reports whether a notification of that app and user matches.
func (f Ref) matches(app, user string) bool {
	return (f.App == "" || f.App == app) && (f.User == "" || f.User == user)
}

// ErrUnknownID means that no notification has that ID, or that its record has expired.
var ErrUnknownID = errors.New("the ID is not known")

// ErrAmbiguous means that notifications of several users, in several shards, have the ID.
var ErrAmbiguous = errors.New("notifications of several users have this ID: name the app and the user")

// An AmbiguousError is ErrAmbiguous with the matching notifications.
type AmbiguousError struct {
	// Choices are sorted by app and user, which are "" for a dead letter that cannot be read.
	Choices []Ref
}

// Error implements error.
func (e *AmbiguousError) Error() string { return ErrAmbiguous.Error() }

// Unwrap returns ErrAmbiguous.
func (e *AmbiguousError) Unwrap() error { return ErrAmbiguous }

// shardsOf returns the shards that may have the notification: one if the app and the user are
// known, otherwise all.
func (r *Records) shardsOf(ctx context.Context, ref Ref) ([]*Shard, error) {
	if ref.App == "" || ref.User == "" {
		return r.All(ctx)
	}
	at, err := r.Of(ctx, ref.App, ref.User)
	if err != nil {
		return nil, err
	}
	return []*Shard{at}, nil
}

// A match is a shard's value of an ID, with its app and user.
type match[T any] struct {
	Ref
	at    *Shard
	value T
}

// search returns the only match of ref in shards, or ErrUnknownID or an *AmbiguousError. It ignores
// a match if sees does not allow its app. ask returns a shard's value of the ID with its app and
// user, or ErrUnknownID. A shard that does not answer fails the search only if no other shard has a
// match.
func search[T any](ctx context.Context, shards []*Shard, ref Ref, sees func(app string) bool, ask func(ctx context.Context, at *Shard) (value T, app, user string, err error)) (match[T], error) {
	type answer struct {
		match[T]
		err error // ErrUnknownID, or an error of the value
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
		case a.err == nil && ref.matches(a.App, a.User) && (sees == nil || sees(a.App)):
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
	case failed != nil: // a silent shard may have the match
		return match[T]{}, failed
	}
	return match[T]{}, ErrUnknownID
}

// Find returns the shard that has the notification, or ErrUnknownID or an *AmbiguousError. If ref
// names the app and the user, Find returns their shard without a read.
func (r *Records) Find(ctx context.Context, ref Ref) (*Shard, error) {
	at, err := r.shardsOf(ctx, ref)
	if err != nil {
		return nil, err
	}
	if len(at) == 1 {
		return at[0], nil
	}
	m, err := r.find(ctx, ref, nil)
	return m.at, err
}

// Resolve returns the notification's full Ref. A notification is unknown if sees does not allow its
// app.
func (r *Records) Resolve(ctx context.Context, ref Ref, sees func(app string) bool) (Ref, error) {
	m, err := r.find(ctx, ref, sees)
	return m.Ref, err
}

func (r *Records) find(ctx context.Context, ref Ref, sees func(app string) bool) (match[struct{}], error) {
	shards, err := r.shardsOf(ctx, ref)
	if err != nil {
		return match[struct{}]{}, err
	}
	return search(ctx, shards, ref, sees, func(ctx context.Context, at *Shard) (none struct{}, app, user string, err error) {
		fields, err := r.client.HMGet(ctx, at.Key("id:"+ref.ID), "state", "of").Result()
		switch {
		case err != nil:
			return none, "", "", fmt.Errorf("read the record of a notification: %w", err)
		case fields[0] == nil:
			return none, "", "", ErrUnknownID
		}
		of, _ := fields[1].(string)
		app, user, _ = splitOf(of)
		return none, app, user, nil
	})
}

// Lookup returns the notification's record and its shard, or ErrUnknownID or an *AmbiguousError.
func (r *Records) Lookup(ctx context.Context, ref Ref) (*Record, *Shard, error) {
	shards, err := r.shardsOf(ctx, ref)
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

// Letter returns the dead letter with its job and its shard, or ErrNoLetter or an *AmbiguousError.
// read decodes the job's payload. A letter counts as missing if sees does not allow its app; a nil
// sees allows all.
func (r *Records) Letter(ctx context.Context, ref Ref, read func(payload []byte) (Contents, error), sees func(app string) bool) (*Letter, *Shard, error) {
	shards, err := r.shardsOf(ctx, ref)
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
		its.FillOwner(read) // an unreadable job that was not accepted has no user
		return l, its.App, its.User, nil
	}
	m, err := search(ctx, shards, ref, sees, ask)
	if all, _ := r.All(ctx); errors.Is(err, ErrUnknownID) && len(shards) < len(all) {
		if other, failed := search(ctx, all, ref, sees, ask); failed == nil { // another client's job may be in any shard
			m, err = other, nil
		}
	}
	if errors.Is(err, ErrUnknownID) {
		err = ErrNoLetter
	}
	return m.value, m.at, err
}

// Purge deletes the dead letter, or returns ErrNoLetter or an *AmbiguousError. It searches as
// Letter does.
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
