package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/shard"
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
	// Reason is the provider's own word, such as "Unregistered"; for Web Push, where there is
	// none, ours.
	Reason string `json:"reason"`
	// Since is the instant at which APNs knew the token to be dead; zero if it
	// did not say, and for the others.
	Since time.Time `json:"since,omitzero"`
	// Notification is the ID of the one that met the dead token, and At when.
	Notification string    `json:"notification"`
	At           time.Time `json:"at"`
}

// DeadTokens are the reports of dead tokens for producers, each at least once:
//
//	dead-tokens    stream of each shard: app, user, platform, token, reason, since,
//	               notification, at; the instants in RFC 3339, since
//	               empty when it is not known
//
// Readers that are one another's substitutes share a consumer group, by Next
// and Ack. It holds the latest reports only: see NewDeadTokens.
type DeadTokens struct{ streams }

// DefaultDeadTokens is how many reports are kept when nothing else is said.
const DefaultDeadTokens = 100_000

// NewDeadTokens returns the reports under the prefix, "pushpace" when it is
// empty. About as many as kept stay in the stream, acknowledged or not; 0 means
// DefaultDeadTokens.
func NewDeadTokens(client redis.UniversalClient, prefix string, kept int) *DeadTokens {
	if kept <= 0 {
		kept = DefaultDeadTokens
	}
	return &DeadTokens{newStreams(client, prefix, "dead-tokens", "dead tokens", kept)}
}

// Add reports dead tokens. Their Entry is not used. After an error some may be
// reported nevertheless.
func (t *DeadTokens) Add(ctx context.Context, tokens ...DeadToken) error {
	if len(tokens) == 0 {
		return nil
	}
	all, err := t.all(ctx)
	if err != nil {
		return err
	}
	pipe := t.records.client.Pipeline()
	for _, d := range tokens {
		pipe.XAdd(ctx, all[shard.Of(len(all), d.App, d.User)].add([]string{"app", d.App, "user", d.User, "platform", string(d.Platform), "token", d.Token, "reason", d.Reason,
			"since", written(d.Since), "notification", d.Notification, "at", written(d.At)}))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("report dead tokens: %w", err)
	}
	return nil
}

// Next answers at most n reports that the group has not acknowledged: those that
// a reader took and has left for so long, or else new ones. A new group begins
// with the oldest report in the stream.
func (t *DeadTokens) Next(ctx context.Context, group string, left time.Duration, n int) ([]DeadToken, error) {
	entries, err := t.streams.next(ctx, group, left, n)
	if err != nil {
		return nil, err
	}
	tokens := make([]DeadToken, len(entries))
	for i, e := range entries {
		tokens[i] = DeadToken{
			Entry: e.ID, App: field(e, "app"), User: field(e, "user"), Platform: Platform(field(e, "platform")), Token: field(e, "token"),
			Reason: field(e, "reason"), Since: readInstant(e, "since"), Notification: field(e, "notification"), At: readInstant(e, "at"),
		}
	}
	return tokens, nil
}

// Ack tells that the group is done with the reports.
func (t *DeadTokens) Ack(ctx context.Context, group string, tokens ...DeadToken) error {
	ids := make([]string, len(tokens))
	for i := range tokens {
		ids[i] = tokens[i].Entry
	}
	return t.streams.ack(ctx, group, ids)
}
