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

// On a Cluster an unreachable master makes only its own shards unreachable. Calls that read all
// shards use the shards that answer and report the silent ones.

// An UnreachableError names the shards that did not answer. The caller also gets the results of the
// other shards. If no shard answers, the error is instead the first shard's error.
type UnreachableError struct {
	Shards []int // sorted numbers
	Err    error // of the first shard; nil to leave it out of the text
}

// Error implements error.
func (e *UnreachableError) Error() string {
	if e.Err == nil {
		return UnreachableText(e.Shards)
	}
	return UnreachableText(e.Shards) + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *UnreachableError) Unwrap() error { return e.Err }

// UnreachableText returns the text that reports shards that do not answer.
func UnreachableText(shards []int) string {
	if len(shards) == 1 {
		return "shard " + strconv.Itoa(shards[0]) + " does not answer"
	}
	numbers := make([]string, len(shards))
	for i, n := range shards {
		numbers[i] = strconv.Itoa(n)
	}
	return "shards " + strings.Join(numbers, ", ") + " do not answer"
}

// Unreachable returns the shards that did not answer, for a caller that goes on without them, and any
// other error.
func Unreachable(err error) ([]int, error) {
	var some *UnreachableError
	if errors.As(err, &some) {
		return some.Shards, nil
	}
	return nil, err
}

// shardTimeout bounds the call to one of several shards. If half of the context's remaining time is
// less, this half is the bound: the other half is for returning the other shards' results.
const shardTimeout = 2 * time.Second

// WithShardTimeout returns the context for a call to one shard. shards is the number of all shards;
// if that is 1, the context is ctx itself.
func WithShardTimeout(ctx context.Context, shards int) (context.Context, context.CancelFunc) {
	if shards == 1 {
		return ctx, func() {}
	}
	within := shardTimeout
	if ends, some := ctx.Deadline(); some {
		within = min(within, time.Until(ends)/2)
	}
	return context.WithTimeout(ctx, within)
}

// Each calls ask for all shards concurrently and returns the results by shard number. If some
// shards do not answer in time, the error is an *UnreachableError. Any other error of a shard fails the
// whole call.
func Each[T any](ctx context.Context, r *Records, ask func(context.Context, *Shard) (T, error)) (map[int]T, error) {
	all, err := r.All(ctx)
	if err != nil {
		return nil, err
	}
	return askAll(ctx, all, ask)
}

// askAll is Each for the shards in all.
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
	near, cancel := WithShardTimeout(ctx, len(all))
	defer cancel()
	arriving := make(chan answer, len(all))
	for _, s := range all {
		go func() {
			a := answer{shard: s.Number}
			defer func() {
				if cause := recover(); cause != nil { // its text may hold personal data
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
		case <-near.Done(): // shards that have not answered in time are left out
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
	if err := ctx.Err(); errors.Is(err, context.Canceled) { // the caller has given up
		return nil, err
	}
	return answers, unreachableError(silent, len(all))
}

// unreachableError returns the error for the silent shards. shards is the number of all shards.
func unreachableError(silent map[int]error, shards int) error {
	if len(silent) == 0 {
		return nil
	}
	e := &UnreachableError{}
	for n := range silent {
		e.Shards = append(e.Shards, n)
	}
	slices.Sort(e.Shards)
	if e.Err = silent[e.Shards[0]]; len(silent) == shards {
		return e.Err
	}
	return e
}

// Walk calls visit for each shard in order, beginning with number from, until visit returns enough.
// It skips shards that do not answer: after the first silent shard it probes all shards at once.
// Without another error, it returns an *UnreachableError for the silent shards.
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
		near, cancel := WithShardTimeout(ctx, len(all))
		enough, err := visit(near, s)
		cancel()
		if redisreply.Of(err) == redisreply.None {
			if enough || err != nil {
				return cmp.Or(err, unreachableError(silent, len(all)))
			}
			continue
		}
		if len(silent) == 0 && len(all) > 1 {
			_, others := Each(ctx, r, func(ctx context.Context, s *Shard) (int64, error) {
				return r.client.Exists(ctx, s.Key("counts")).Result()
			})
			also, none := Unreachable(others)
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
	return unreachableError(silent, len(all))
}
