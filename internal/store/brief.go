package store

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Brief is a notification's summary in lists.
type Brief struct {
	App, User, Category string
	State               State
	Queue               string
	// Until, Scope and Rule belong to the last deferral; zero for a notification that has ended or
	// was never deferred.
	Until       time.Time
	Scope, Rule string
	// Outcomes are the targets' outcomes in the attempts so far; nil before the first attempt.
	Outcomes []TargetOutcome
}

// Briefs returns the briefs of the known notifications, by ID. It makes one round trip.
func (r *Shard) Briefs(ctx context.Context, ids []string) (map[string]Brief, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	pipe := r.client.Pipeline()
	records := make([]*redis.SliceCmd, len(ids))
	for i, id := range ids {
		records[i] = pipe.HMGet(ctx, r.Key("id:"+id), "state", "queue", "until", "scope", "rule", "outcomes", "of")
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("read the records of notifications: %w", err)
	}
	all := make(map[string]Brief, len(ids))
	for i, record := range records {
		fields := record.Val()
		text := func(i int) string { s, _ := fields[i].(string); return s }
		state := State(text(0))
		if state == "" {
			continue
		}
		outcomes, _ := decodeOutcomes(text(5), "") // an unreadable field does not fail the list
		app, user, category := splitOf(text(6))
		all[ids[i]] = Brief{app, user, category, state, text(1), instant(text(2)), text(3), text(4), outcomes}
	}
	return all, nil
}
