package push

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Deferral is how a notification was put off: until when, and by which scope
// and rule.
type Deferral struct {
	Until       time.Time
	Scope, Rule string
}

// LastDeferrals answers by ID how the notifications were put off last: those of
// them that wait, and were. It makes one round trip, one to each node of a
// Cluster.
func (r *Records) LastDeferrals(ctx context.Context, ids []string) (map[string]Deferral, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	pipe := r.client.Pipeline()
	records := make([]*redis.SliceCmd, len(ids))
	for i, id := range ids {
		records[i] = pipe.HMGet(ctx, r.tag(shardOf(id))+"id:"+id, "until", "scope", "rule")
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("records of notifications: %w", err)
	}
	all := make(map[string]Deferral, len(ids))
	for i, record := range records {
		fields := record.Val()
		until, _ := fields[0].(string)
		scope, _ := fields[1].(string)
		rule, _ := fields[2].(string)
		if until != "" {
			all[ids[i]] = Deferral{instant(until), scope, rule}
		}
	}
	return all, nil
}
