package store

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// streams holds a stream for each app and shard, and reads an app's streams of all shards as one.
// If there are several shards, an entry's ID ends with "@" and the shard's number.
type streams struct {
	records    *Records
	name, what string
	turn       *atomic.Int64 // the shard to read first, modulo the number of shards
}

func newStreams(records *Records, name, what string) streams {
	return streams{records, name, what, new(atomic.Int64)}
}

// of returns the app's stream of a shard.
func (s *streams) of(app string, at *Shard) *stream {
	return &stream{s.records.client, at.Key(s.name + ":" + app), s.what}
}

// next returns the first non-empty result of stream.next, beginning one shard later at each call.
// If no shard has entries, it returns the first error.
func (s *streams) next(ctx context.Context, app, group string, minAge time.Duration, n int) (entries []redis.XMessage, failed error) {
	all, err := s.records.All(ctx)
	if err != nil {
		return nil, err
	}
	turn := int(s.turn.Add(1) % int64(len(all)))
	for i := range all {
		at := (turn + i) % len(all)
		entries, err := s.of(app, all[at]).next(ctx, group, minAge, n)
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

// ack acknowledges entries for the group.
func (s *streams) ack(ctx context.Context, app, group string, ids []string) error {
	of := map[int][]string{}
	for _, id := range ids {
		id, number, _ := strings.Cut(id, "@")
		at, _ := strconv.Atoi(number)
		of[at] = append(of[at], id)
	}
	_, err := Each(ctx, s.records, func(ctx context.Context, at *Shard) (none struct{}, err error) {
		return none, s.of(app, at).ack(ctx, group, of[at.Number])
	})
	return err
}

// Oldest returns when the group's oldest unacknowledged report of the app was made; zero if there
// is none.
func (s *streams) Oldest(ctx context.Context, app, group string) (first time.Time, err error) {
	all, err := Each(ctx, s.records, func(ctx context.Context, at *Shard) (time.Time, error) {
		return s.of(app, at).oldest(ctx, group)
	})
	if err != nil {
		return first, err
	}
	for _, at := range all {
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first, nil
}
