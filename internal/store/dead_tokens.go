package store

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/shard"
)

// A DeadToken reports that a token or FID will never work again. Delete it, unless it was
// registered again after Since.
type DeadToken struct {
	// Entry is the report's ID in the stream. A later report of the same token has a new Entry.
	Entry    string   `json:"entry"`
	App      string   `json:"app"`
	User     string   `json:"user"`
	Platform Platform `json:"platform"`
	// Token is the dead token, FID the dead Firebase Installation ID: a report has either.
	Token string `json:"token,omitempty"`
	FID   string `json:"fid,omitempty"`
	// Reason is the provider's own code, such as "Unregistered"; for Web Push, which has no codes,
	// pushpace's.
	Reason string `json:"reason"`
	// Since is when APNs knew the token to be dead; zero if APNs did not say, and for the other
	// platforms.
	Since time.Time `json:"since,omitzero"`
	// Notification is the ID of the notification that was sent to the dead token, and At when.
	Notification string    `json:"notification"`
	At           time.Time `json:"at"`
}

// DeadTokens are the reports of dead tokens for producers, each delivered at least once:
//
//	dead-tokens:APP    stream of each shard: app, user, platform, token or fid, reason,
//	                   since, notification, at; instants in RFC 3339; since is
//	                   empty if unknown
//
// Readers that replace one another name the same consumer group to Next and Ack. The stream holds
// the latest reports only: see NewDeadTokens.
type DeadTokens struct {
	streams
	kept int
}

// DefaultDeadTokens is the bound of an app's reports if none is configured.
const DefaultDeadTokens = 100_000

const deadTokensName = "dead-tokens"

// NewDeadTokens returns the dead tokens in the records' shards. kept is about how many reports of
// each app stay, acknowledged or not; 0 means DefaultDeadTokens.
func NewDeadTokens(records *Records, kept int) *DeadTokens {
	return &DeadTokens{newStreams(records, deadTokensName, "dead tokens"), cmp.Or(kept, DefaultDeadTokens)}
}

// reportScript calls report for several reports of an app.
//
// KEYS  the prefix of the streams, counts
// ARGV  the bound, the app, the number of values of a report, then the values of each report
var reportScript = redis.NewScript(reportSource + `
local values = tonumber(ARGV[3])
for at = 4, #ARGV, values do
  local added = report(KEYS[1], tonumber(ARGV[1]), KEYS[2], '` + DeadTokenReports + `', ARGV[2], {unpack(ARGV, at, at + values - 1)})
  if type(added) == 'table' and added.err then return added end
end
return redis.status_reply('OK')
`)

// Add reports dead tokens. It ignores their Entry. After an error, some of them may have been
// reported.
func (t *DeadTokens) Add(ctx context.Context, tokens ...DeadToken) error {
	all, err := t.records.All(ctx)
	if err != nil {
		return err
	}
	type home struct {
		app   string
		shard int
	}
	kept, values, args := perShard(t.kept, len(all)), 0, map[home][]any{}
	for _, d := range tokens {
		kind, address := "token", d.Token
		if d.FID != "" {
			kind, address = "fid", d.FID
		}
		report := []any{"app", d.App, "user", d.User, "platform", string(d.Platform), kind, address, "reason", d.Reason,
			"since", formatInstant(d.Since), "notification", d.Notification, "at", formatInstant(d.At)}
		to := home{d.App, shard.Of(len(all), d.App, d.User)}
		args[to], values = append(args[to], report...), len(report)
	}
	for to, reports := range args {
		at := all[to.shard]
		keys := []string{at.Key(deadTokensName), at.Key("counts")}
		if err := reportScript.Run(ctx, t.records.client, keys, append([]any{kept, to.app, values}, reports...)...).Err(); err != nil {
			return fmt.Errorf("report dead tokens: %w", err)
		}
	}
	return nil
}

// Next returns at most n of the app's reports that the group has not acknowledged: reports that a
// reader took at least minAge ago, or if there are none, new reports. A new group begins with the
// oldest report in the stream.
func (t *DeadTokens) Next(ctx context.Context, app, group string, minAge time.Duration, n int) ([]DeadToken, error) {
	entries, err := t.streams.next(ctx, app, group, minAge, n)
	if err != nil {
		return nil, err
	}
	tokens := make([]DeadToken, len(entries))
	for i, e := range entries {
		tokens[i] = DeadToken{
			Entry: e.ID, App: field(e, "app"), User: field(e, "user"), Platform: Platform(field(e, "platform")), Token: field(e, "token"),
			FID: field(e, "fid"), Reason: field(e, "reason"), Since: readInstant(e, "since"), Notification: field(e, "notification"), At: readInstant(e, "at"),
		}
	}
	return tokens, nil
}

// Ack acknowledges reports of the app for the group.
func (t *DeadTokens) Ack(ctx context.Context, app, group string, tokens ...DeadToken) error {
	ids := make([]string, len(tokens))
	for i := range tokens {
		ids[i] = tokens[i].Entry
	}
	return t.streams.ack(ctx, app, group, ids)
}
