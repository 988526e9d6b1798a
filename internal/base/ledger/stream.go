package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/shard"
)

// A stream holds the latest of what is reported to producers. Readers that are one
// another's substitutes share a consumer group: what one takes and does not
// acknowledge, another is answered.
type stream struct {
	client redis.UniversalClient
	key    string
	kept   int64 // about how many
	what   string
}

func newStream(client redis.UniversalClient, of shard.Shard, name, what string, kept int) stream {
	return stream{client, of.Key(name), int64(kept), what}
}

// add is the command that reports one, given its fields.
func (s *stream) add(values []string) *redis.XAddArgs {
	return &redis.XAddArgs{Stream: s.key, MaxLen: s.kept, Approx: true, Values: values}
}

// consumer is every reader's name in a group: what a reader leaves behind is
// found by its age, whoever that was.
const consumer = "pushpace"

// next answers at most n reports that the group has not acknowledged: those that
// a reader took and has left for so long, or else new ones. A new group begins
// with the oldest report in the stream.
func (s *stream) next(ctx context.Context, group string, left time.Duration, n int) ([]redis.XMessage, error) {
	entries, err := s.claim(ctx, group, left, n)
	if err == nil && len(entries) == 0 {
		entries, err = s.fresh(ctx, group, n)
	}
	if err != nil && redis.HasErrorPrefix(err, "NOGROUP") {
		if err := s.client.XGroupCreateMkStream(ctx, s.key, group, "0").Err(); err != nil && !redis.HasErrorPrefix(err, "BUSYGROUP") {
			return nil, fmt.Errorf("read %s: %w", s.what, err)
		}
		entries, err = s.fresh(ctx, group, n)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.what, err)
	}
	return entries, nil
}

func (s *stream) fresh(ctx context.Context, group string, n int) ([]redis.XMessage, error) {
	streams, err := s.client.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: group, Consumer: consumer, Streams: []string{s.key, ">"}, Count: int64(n), Block: -1,
	}).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil || len(streams) == 0 {
		return nil, err
	}
	return streams[0].Messages, nil
}

// claim takes over what other readers have left. It asks for the IDs alone: an
// entry that the stream has dropped since would be nil in Redis 6.2's answer.
func (s *stream) claim(ctx context.Context, group string, left time.Duration, n int) ([]redis.XMessage, error) {
	ids, _, err := s.client.XAutoClaimJustID(ctx, &redis.XAutoClaimArgs{
		Stream: s.key, Group: group, Consumer: consumer, MinIdle: left, Start: "0", Count: int64(n),
	}).Result()
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	pipe := s.client.Pipeline()
	entries := make([]*redis.XMessageSliceCmd, len(ids))
	for i, id := range ids {
		entries[i] = pipe.XRange(ctx, s.key, id, id)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	var found []redis.XMessage
	var dropped []string
	for i, entry := range entries {
		if len(entry.Val()) == 0 {
			dropped = append(dropped, ids[i])
		}
		found = append(found, entry.Val()...)
	}
	if len(dropped) > 0 {
		if err := s.client.XAck(ctx, s.key, group, dropped...).Err(); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// ack tells that the group is done with these entries.
func (s *stream) ack(ctx context.Context, group string, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	if err := s.client.XAck(ctx, s.key, group, ids...).Err(); err != nil {
		return fmt.Errorf("acknowledge %s: %w", s.what, err)
	}
	return nil
}

// oldest is when the first of what the group's readers have taken and not
// acknowledged was reported; zero when there is none.
func (s *stream) oldest(ctx context.Context, group string) (time.Time, error) {
	pending, err := s.client.XPending(ctx, s.key, group).Result()
	if err != nil && (errors.Is(err, redis.Nil) || redis.HasErrorPrefix(err, "NOGROUP")) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("read %s: %w", s.what, err)
	}
	if pending.Count == 0 {
		return time.Time{}, nil
	}
	ms, _, _ := strings.Cut(pending.Lower, "-")
	return instant(ms), nil
}

// field is a field of an entry.
func field(e redis.XMessage, name string) string {
	text, _ := e.Values[name].(string)
	return text
}

// readInstant is an instant of an entry.
func readInstant(e redis.XMessage, name string) time.Time {
	at, _ := time.Parse(time.RFC3339Nano, field(e, name))
	return at
}

// written is an instant in UTC, and nothing for the zero one.
func written(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}
