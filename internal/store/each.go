package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/base/redisreply"
)

// On a Cluster a master that is away, or hangs, takes its shards with it, and no others. What
// looks at all shards goes on with those that answer, and says which do not.

// An UnreadError says that some shards did not answer, while what was read of the others
// stands beside it. Where none answers it is another error.
type UnreadError struct {
	Shards []int // by their numbers
	Err    error // that of the first; nil where it is not told
}

// Error implements error.
func (e *UnreadError) Error() string {
	if e.Err == nil {
		return Silent(e.Shards)
	}
	return Silent(e.Shards) + ": " + e.Err.Error()
}

// Unwrap returns that of the first.
func (e *UnreadError) Unwrap() error { return e.Err }

// Silent says of shards that they do not answer.
func Silent(shards []int) string {
	if len(shards) == 1 {
		return "shard " + strconv.Itoa(shards[0]) + " does not answer"
	}
	numbers := make([]string, len(shards))
	for i, n := range shards {
		numbers[i] = strconv.Itoa(n)
	}
	return "shards " + strings.Join(numbers, ", ") + " do not answer"
}

// Unread returns the shards that did not answer, for who goes on without them, and any other
// error.
func Unread(err error) ([]int, error) {
	var some *UnreadError
	if errors.As(err, &some) {
		return some.Shards, nil
	}
	return nil, err
}

// answerWithin is how long one of several shards may take. Where the context ends sooner it is
// half of what is left: what the others answer is to be told in time.
const answerWithin = 2 * time.Second

// InTime returns a context for what one master is asked for, where there are so many shards:
// the same where there is one.
func InTime(ctx context.Context, shards int) (context.Context, context.CancelFunc) {
	if shards == 1 {
		return ctx, func() {}
	}
	within := answerWithin
	if ends, some := ctx.Deadline(); some {
		within = min(within, time.Until(ends)/2)
	}
	return context.WithTimeout(ctx, within)
}

// Each asks all shards side by side, and returns what they answer by their numbers. Where some
// do not answer in time, the error is an *UnreadError. Any other error of a shard is that of
// all.
func Each[T any](ctx context.Context, r *Records, ask func(context.Context, *Shard) (T, error)) (map[int]T, error) {
	all, err := r.All(ctx)
	if err != nil {
		return nil, err
	}
	return askAll(ctx, all, ask)
}

// askAll is Each of these shards.
func askAll[T any](ctx context.Context, all []*Shard, ask func(context.Context, *Shard) (T, error)) (map[int]T, error) {
	if len(all) == 1 {
		answer, err := ask(ctx, all[0])
		if err != nil {
			return nil, err
		}
		return map[int]T{all[0].Number: answer}, nil
	}
	type answer struct {
		shard int
		value T
		err   error
	}
	near, cancel := InTime(ctx, len(all))
	defer cancel()
	arriving := make(chan answer, len(all))
	for _, s := range all {
		go func() {
			a := answer{shard: s.Number}
			defer func() {
				if cause := recover(); cause != nil { // whose text may hold anything
					a.err = fmt.Errorf("a panic: %T", cause)
				}
				arriving <- a
			}()
			a.value, a.err = ask(near, s)
		}()
	}
	answers, silent := make(map[int]T, len(all)), make(map[int]error, len(all))
	for _, s := range all {
		silent[s.Number] = context.DeadlineExceeded
	}
	for range all {
		var a answer
		select {
		case a = <-arriving:
		case <-near.Done(): // who has not kept to the time is left behind
			select {
			case a = <-arriving:
			default:
				continue
			}
		}
		switch {
		case a.err == nil:
			answers[a.shard] = a.value
			delete(silent, a.shard)
		case redisreply.Of(a.err) == redisreply.None:
			return nil, a.err
		default:
			silent[a.shard] = a.err
		}
	}
	if err := ctx.Err(); errors.Is(err, context.Canceled) { // nobody waits for the answer
		return nil, err
	}
	return answers, unread(silent, len(all))
}

// unread is the error of those that did not answer, of so many shards.
func unread(silent map[int]error, shards int) error {
	if len(silent) == 0 {
		return nil
	}
	e := &UnreadError{}
	for n := range silent {
		e.Shards = append(e.Shards, n)
	}
	slices.Sort(e.Shards)
	if e.Err = silent[e.Shards[0]]; len(silent) == shards {
		return e.Err
	}
	return e
}

// Walk visits one shard after another from that number on, until one visit is enough. It
// passes over those that do not answer, for which it asks all when it meets the first: then
// the error is an *UnreadError, if no other.
func (r *Records) Walk(ctx context.Context, from int, visit func(context.Context, *Shard) (enough bool, err error)) error {
	all, err := r.All(ctx)
	if err != nil {
		return err
	}
	silent := make(map[int]error)
	for _, s := range all[from:] {
		if silent[s.Number] != nil {
			continue
		}
		near, cancel := InTime(ctx, len(all))
		enough, err := visit(near, s)
		cancel()
		if redisreply.Of(err) == redisreply.None {
			if enough || err != nil {
				return cmp.Or(err, unread(silent, len(all)))
			}
			continue
		}
		if len(silent) == 0 && len(all) > 1 {
			_, others := Each(ctx, r, func(ctx context.Context, s *Shard) (int64, error) {
				return r.client.Exists(ctx, s.Key("counts")).Result()
			})
			also, none := Unread(others)
			if none != nil {
				return none
			}
			for _, n := range also {
				if n >= from {
					silent[n] = err
				}
			}
		}
		silent[s.Number] = err
	}
	return unread(silent, len(all))
}
