package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/redisreply"
)

// The IDs of each user's waiting notifications are in one set, whatever queue their jobs are on:
//
//	waits:APP LINE FEED USER    sorted set of IDs, all with the same score: see waits.lua

//go:embed waits.lua
var waitsSource string

// maxWithdrawn is the most notifications that a Withdraw reads.
const maxWithdrawn = 5 * PageSize

// Withdrawn is the result of a Withdraw.
type Withdrawn struct {
	// Taken are the ended notifications.
	Taken []*Taken
	// InFlight counts matching notifications that workers have claimed. They stay.
	InFlight int
	// Next is the last ID that was read, for the next call; "" at the end.
	Next string
}

// Withdraw ends a user's waiting notifications with matching payloads, as TakeAll does. It reads up
// to maxWithdrawn notifications in the order of their IDs, beginning behind the ID lastID. With an
// error it also returns the ended notifications.
func (r *Shard) Withdraw(ctx context.Context, app, user, lastID string, matches func(payload []byte) bool, how TakeOptions) (w Withdrawn, err error) {
	w.Next = lastID
	for range maxWithdrawn / PageSize {
		from := redis.ZRangeBy{Min: "-", Max: "+", Count: PageSize}
		if w.Next != "" {
			from.Min = "(" + w.Next
		}
		ids, err := r.client.ZRangeByLex(ctx, r.Key("waits:"+app+"\n"+user), &from).Result()
		if err != nil {
			return w, fmt.Errorf("list a user's waiting notifications: %w", err)
		}
		var refs []Ref
		for i, s := range r.readRecordsAndJobs(ctx, ids) {
			switch {
			case errors.Is(s.err, ErrUnknownID), redisreply.OfItsKeys(s.err): // the other notifications can still be taken
			case s.err != nil:
				return w, s.err
			case s.job != nil && matches([]byte(s.job.Payload)):
				refs = append(refs, Ref{ids[i], app, user})
			}
		}
		if err := w.take(ctx, r, refs, how); err != nil {
			return w, err
		}
		if len(ids) < PageSize {
			w.Next = ""
			return w, nil
		}
		w.Next = ids[len(ids)-1]
	}
	return w, nil
}

// take takes notifications and adds the results.
func (w *Withdrawn) take(ctx context.Context, at *Shard, refs []Ref, how TakeOptions) (failed error) {
	taken, errs := at.TakeAll(ctx, refs, how)
	for i, err := range errs {
		switch {
		case err == nil:
			w.Taken = append(w.Taken, taken[i])
		case errors.Is(err, ErrInFlight):
			w.InFlight++
		case errors.Is(err, ErrEnded), errors.Is(err, ErrUnknownID), redisreply.OfItsKeys(err):
		default:
			failed = err
		}
	}
	return failed
}
