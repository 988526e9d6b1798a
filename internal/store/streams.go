package store

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// streams has a stream for each app and shard. It reads an app's streams of all shards as
// one. If there are several shards, "@" and the shard's number end an entry's ID.
type streams struct {
	records    *Records
	name, what string
	turn       *atomic.Int64 // whose are read first
}

func newStreams(records *Records, name, what string) streams {
	return streams{records, name, what, new(atomic.Int64)}
}

// all returns the app's streams, by the shards' numbers.
func (s *streams) all(ctx context.Context, app string) ([]stream, error) {
	shards, err := s.records.All(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]stream, len(shards))
	for i, of := range shards {
		all[i] = stream{s.records.client, of.Key(s.name + ":" + app), s.what}
	}
	return all, nil
}

// next is stream.next of the first shard that has some, of another one first at each call.
// It returns the first error where none has any.
func (s *streams) next(ctx context.Context, app, group string, left time.Duration, n int) (entries []redis.XMessage, failed error) {
	all, err := s.all(ctx, app)
	if err != nil {
		return nil, err
	}
	turn := int(s.turn.Add(1) % int64(len(all)))
	for i := range all {
		at := (turn + i) % len(all)
		entries, err := all[at].next(ctx, group, left, n)
		if failed == nil {
			failed = err
		}
		if len(entries) == 0 {
			continue
		}
		if len(all) > 1 {
			for i := range entries {
				entries[i].ID += "@" + strconv.Itoa(at)
			}
		}
		return entries, nil
	}
	return nil, failed
}

// ack tells that the group is done with these entries.
func (s *streams) ack(ctx context.Context, app, group string, ids []string) error {
	all, err := s.all(ctx, app)
	if err != nil {
		return err
	}
	of := make([][]string, len(all))
	for _, id := range ids {
		id, number, _ := strings.Cut(id, "@")
		if at, _ := strconv.Atoi(number); at >= 0 && at < len(all) {
			of[at] = append(of[at], id)
		}
	}
	for i := range all {
		if err := all[i].ack(ctx, group, of[i]); err != nil {
			return err
		}
	}
	return nil
}

// Oldest is when the first of the app's reports was made that the group has not acknowledged;
// zero when there is none.
func (s *streams) Oldest(ctx context.Context, app, group string) (first time.Time, err error) {
	all, err := s.all(ctx, app)
	if err != nil {
		return first, err
	}
	for i := range all {
		at, err := all[i].oldest(ctx, group)
		if err != nil {
			return first, err
		}
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first, nil
}
