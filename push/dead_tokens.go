package push

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A DeadToken tells that a token will never work again. Drop it, unless it was
// registered anew after Since.
type DeadToken struct {
	// Entry is the report's ID in the stream. The same token may be reported
	// again under another one.
	Entry    string   `json:"entry"`
	App      string   `json:"app"`
	User     string   `json:"user"`
	Platform Platform `json:"platform"`
	Token    string   `json:"token"`
	// Reason is the provider's own word, such as "Unregistered".
	Reason string `json:"reason"`
	// Since is the instant at which APNs knew the token to be dead; zero if it
	// did not say, and for FCM.
	Since time.Time `json:"since,omitzero"`
	// Notification is the ID of the one that met the dead token, and At when.
	Notification string    `json:"notification"`
	At           time.Time `json:"at"`
}

// DeadTokens are the reports of dead tokens for producers, each at least once:
//
//	PREFIX:dead-tokens    stream: app, user, platform, token, reason, since,
//	                      notification, at; the instants in RFC 3339, since
//	                      empty when it is not known
//
// Readers that are one another's substitutes share a consumer group, by Next
// and Ack. It holds the latest reports only: see NewDeadTokens.
type DeadTokens struct {
	client redis.UniversalClient
	stream string
	kept   int64
}

// DefaultDeadTokens is how many reports are kept when nothing else is said.
const DefaultDeadTokens = 100_000

// NewDeadTokens returns the reports under the prefix, "pushpace" when it is
// empty. About as many as kept stay in the stream, acknowledged or not; 0 means
// DefaultDeadTokens.
func NewDeadTokens(client redis.UniversalClient, prefix string, kept int) *DeadTokens {
	if prefix == "" {
		prefix = "pushpace"
	}
	if kept <= 0 {
		kept = DefaultDeadTokens
	}
	return &DeadTokens{client, prefix + ":dead-tokens", int64(kept)}
}

// Add reports dead tokens. Their Entry is not used. After an error some may be
// reported nevertheless.
func (t *DeadTokens) Add(ctx context.Context, tokens ...DeadToken) error {
	if len(tokens) == 0 {
		return nil
	}
	pipe := t.client.Pipeline()
	for _, d := range tokens {
		pipe.XAdd(ctx, &redis.XAddArgs{
			Stream: t.stream, MaxLen: t.kept, Approx: true,
			Values: []string{"app", d.App, "user", d.User, "platform", string(d.Platform), "token", d.Token, "reason", d.Reason,
				"since", written(d.Since), "notification", d.Notification, "at", written(d.At)},
		})
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("report dead tokens: %w", err)
	}
	return nil
}

// consumer is every reader's name in a group: what a reader leaves behind is
// found by its age, whoever that was.
const consumer = "pushpace"

// Next answers at most n reports that the group has not acknowledged: those that
// a reader took and has left for so long, or else new ones. A new group begins
// with the oldest report in the stream.
func (t *DeadTokens) Next(ctx context.Context, group string, left time.Duration, n int) ([]DeadToken, error) {
	tokens, err := t.claim(ctx, group, left, n)
	if err == nil && len(tokens) == 0 {
		tokens, err = t.fresh(ctx, group, n)
	}
	if err != nil && strings.HasPrefix(err.Error(), "NOGROUP") {
		if err := t.client.XGroupCreateMkStream(ctx, t.stream, group, "0").Err(); err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {
			return nil, fmt.Errorf("read dead tokens: %w", err)
		}
		tokens, err = t.fresh(ctx, group, n)
	}
	if err != nil {
		return nil, fmt.Errorf("read dead tokens: %w", err)
	}
	return tokens, nil
}

func (t *DeadTokens) fresh(ctx context.Context, group string, n int) ([]DeadToken, error) {
	streams, err := t.client.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: group, Consumer: consumer, Streams: []string{t.stream, ">"}, Count: int64(n), Block: -1,
	}).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil || len(streams) == 0 {
		return nil, err
	}
	return readDeadTokens(streams[0].Messages), nil
}

// claim takes over what other readers have left. It asks for the IDs alone: an
// entry that the stream has dropped since would be nil in Redis 6.2's answer.
func (t *DeadTokens) claim(ctx context.Context, group string, left time.Duration, n int) ([]DeadToken, error) {
	ids, _, err := t.client.XAutoClaimJustID(ctx, &redis.XAutoClaimArgs{
		Stream: t.stream, Group: group, Consumer: consumer, MinIdle: left, Start: "0", Count: int64(n),
	}).Result()
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	pipe := t.client.Pipeline()
	entries := make([]*redis.XMessageSliceCmd, len(ids))
	for i, id := range ids {
		entries[i] = pipe.XRange(ctx, t.stream, id, id)
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
		if err := t.client.XAck(ctx, t.stream, group, dropped...).Err(); err != nil {
			return nil, err
		}
	}
	return readDeadTokens(found), nil
}

// Ack tells that the group is done with the reports.
func (t *DeadTokens) Ack(ctx context.Context, group string, tokens ...DeadToken) error {
	if len(tokens) == 0 {
		return nil
	}
	ids := make([]string, len(tokens))
	for i := range tokens {
		ids[i] = tokens[i].Entry
	}
	if err := t.client.XAck(ctx, t.stream, group, ids...).Err(); err != nil {
		return fmt.Errorf("acknowledge dead tokens: %w", err)
	}
	return nil
}

func readDeadTokens(entries []redis.XMessage) []DeadToken {
	tokens := make([]DeadToken, len(entries))
	for i, e := range entries {
		text := func(field string) string { s, _ := e.Values[field].(string); return s }
		read := func(field string) time.Time { at, _ := time.Parse(time.RFC3339Nano, text(field)); return at }
		tokens[i] = DeadToken{
			Entry: e.ID, App: text("app"), User: text("user"), Platform: Platform(text("platform")), Token: text("token"),
			Reason: text("reason"), Since: read("since"), Notification: text("notification"), At: read("at"),
		}
	}
	return tokens
}

// written is an instant in UTC, and nothing for the zero one.
func written(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}
