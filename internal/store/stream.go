package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A stream holds the latest reports for an app's producers. Readers that replace one another share
// a consumer group: if a reader does not acknowledge a report, a later reader gets it.
type stream struct {
	client redis.UniversalClient
	key    string
	what   string
}

// consumer is the name of every reader in a group: unacknowledged reports are found by age, not by
// reader.
const consumer = "pushpace"

// next returns at most n reports that the group has not acknowledged: reports that a reader took at
// least minAge ago, or if there are none, new reports. A new group begins with the oldest report in
// the stream.
func (s *stream) next(ctx context.Context, group string, minAge time.Duration, n int) ([]redis.XMessage, error) {
	entries, err := s.claim(ctx, group, minAge, n)
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

// claim takes over reports that a reader took at least minAge ago. It requests only the IDs: Redis
// 6.2 returns nil for an entry that was deleted from the stream.
func (s *stream) claim(ctx context.Context, group string, minAge time.Duration, n int) ([]redis.XMessage, error) {
	ids, _, err := s.client.XAutoClaimJustID(ctx, &redis.XAutoClaimArgs{
		Stream: s.key, Group: group, Consumer: consumer, MinIdle: minAge, Start: "0", Count: int64(n),
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

// ack acknowledges entries for the group.
func (s *stream) ack(ctx context.Context, group string, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	if err := s.client.XAck(ctx, s.key, group, ids...).Err(); err != nil {
		return fmt.Errorf("acknowledge %s: %w", s.what, err)
	}
	return nil
}

// oldest returns when the group's oldest unacknowledged report was made, even if a reader has taken
// it; zero if there is none.
func (s *stream) oldest(ctx context.Context, group string) (time.Time, error) {
	entries, err := s.client.XRangeN(ctx, s.key, "-", "+", 1).Result()
	if err != nil || len(entries) == 0 {
		return time.Time{}, s.unread(err)
	}
	groups, err := s.client.XInfoGroups(ctx, s.key).Result()
	if err != nil {
		return time.Time{}, s.unread(err)
	}
	at := slices.IndexFunc(groups, func(g redis.XInfoGroup) bool { return g.Name == group })
	if at < 0 { // no reader has created the group
		return entryTime(entries[0].ID), nil
	}
	pending, err := s.client.XPendingExt(ctx, &redis.XPendingExtArgs{Stream: s.key, Group: group, Start: "-", End: "+", Count: 1}).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return time.Time{}, s.unread(err)
	}
	if len(pending) > 0 {
		return entryTime(pending[0].ID), nil
	}
	entries, err = s.client.XRangeN(ctx, s.key, "("+groups[at].LastDeliveredID, "+", 1).Result()
	if err != nil || len(entries) == 0 {
		return time.Time{}, s.unread(err)
	}
	return entryTime(entries[0].ID), nil
}

func (s *stream) unread(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("read %s: %w", s.what, err)
}

// entryTime returns when the entry with that ID was added.
func entryTime(id string) time.Time {
	ms, _, _ := strings.Cut(id, "-")
	return instant(ms)
}

func field(e redis.XMessage, name string) string {
	text, _ := e.Values[name].(string)
	return text
}

func readInstant(e redis.XMessage, name string) time.Time {
	at, _ := time.Parse(time.RFC3339Nano, field(e, name))
	return at
}

// formatInstant formats an instant in UTC, cut to milliseconds; "" for the zero time.
func formatInstant(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano)
}
