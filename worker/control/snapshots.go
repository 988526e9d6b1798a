package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/acknowledged"
	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/worker/route"
)

// A Snapshot is the published state of one worker. Its instants are of the worker's clock, except
// At.
type Snapshot struct {
	// ID is made of the host, the process and a random part.
	ID      string    `json:"id"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Version string    `json:"version,omitempty"`
	Started time.Time `json:"started"`
	// At is when the snapshot was written, on the reader's clock.
	At time.Time `json:"at"`
	// Draining means that the worker claims no more jobs and is about to stop.
	Draining bool `json:"draining,omitempty"`
	// Pulls means that its last pull succeeded.
	Pulls       bool `json:"pulls"`
	Concurrency int  `json:"concurrency"`
	// Routes are its routes, troubled routes first; MoreRoutes counts the omitted routes.
	Routes     []route.Status `json:"routes"`
	MoreRoutes int            `json:"more_routes,omitempty"`
	// Quotas is its view of the shared quotas, the quota with most waiting jobs first.
	Quotas []route.QuotaStatus `json:"quotas,omitempty"`
	// Minutes are its minutes not yet added to Redis: the current minute, and earlier ones that Redis did
	// not accept.
	Minutes []Minute `json:"minutes,omitempty"`
	// LateP99 is the 99th percentile of the delay after the slot, over notifications that only a
	// limit held, in the last 15 minutes.
	LateP99 time.Duration `json:"late_p99_ns,omitempty"`
	// Limits describes an outage of the limits' store; zero without an outage.
	Limits LimitsOutage `json:"limits_away,omitzero"`
	// Silent are the shards of a Cluster that have not answered this worker for some seconds, with their
	// last known waiting notifications.
	Silent []store.LastWaiting `json:"silent_shards,omitempty"`
	// RedisAheadBy is how far Redis's clock is ahead of the worker's.
	RedisAheadBy time.Duration `json:"redis_ahead_by_ns"`
}

// Of returns the snapshot without data about all apps together, or about apps for which sees returns
// false.
func (s *Snapshot) Of(sees func(app string) bool) Snapshot {
	its := Snapshot{
		ID: s.ID, Host: s.Host, PID: s.PID, Version: s.Version, Started: s.Started, At: s.At, Draining: s.Draining, Pulls: s.Pulls,
		Concurrency: s.Concurrency, Limits: s.Limits, RedisAheadBy: s.RedisAheadBy, Routes: []route.Status{},
	}
	for _, r := range s.Routes {
		if sees(r.App) {
			its.Routes = append(its.Routes, r)
		}
	}
	return its
}

// LimitsOutage is an outage of the limits' store: its beginning and its cause.
type LimitsOutage struct {
	Since time.Time `json:"since"`
	Cause string    `json:"cause,omitempty"`
}

const (
	// snapshotLife is the TTL of a worker's snapshot and ID: several intervals between snapshots.
	snapshotLife = 6 * time.Second
	// maxSnapshotRoutes bounds the routes and the quotas of a snapshot, and maxSnapshots the
	// snapshots read. They bound the size of a command and of a reply.
	maxSnapshotRoutes = 256
	maxSnapshots      = 1000
)

// snapshotKeys returns the keys of the snapshots:
//
//	PREFIX:{workers}:alive    sorted set of IDs, by the last write in Unix s of Redis's clock
//	PREFIX:{workers}:ID       JSON; expires after snapshotLife
func snapshotKeys(prefix, id string) (alive, own string) {
	prefix = cmp.Or(prefix, "pushpace") + ":{workers}:"
	return prefix + "alive", prefix + id
}

// publishScript writes a snapshot in one command, once a second.
// KEYS  own, alive
// ARGV  snapshot, its life (s), ID
var publishScript = acknowledged.Reader(redis.NewScript(`
local now = tonumber(redis.call('TIME')[1])
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
redis.call('ZADD', KEYS[2], now, ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - ARGV[2])
redis.call('EXPIRE', KEYS[2], ARGV[2])
return 1
`))

// ReadSnapshots returns the snapshots of live workers under the prefix, "pushpace" if empty: sorted by
// ID, at most 1,000. A killed worker stays listed for some seconds.
func ReadSnapshots(ctx context.Context, client redis.UniversalClient, prefix string) ([]Snapshot, error) {
	alive, _ := snapshotKeys(prefix, "")
	ids, err := client.ZRevRange(ctx, alive, 0, maxSnapshots-1).Result()
	if err != nil {
		return nil, fmt.Errorf("read the workers' snapshots: %w", err)
	}
	slices.Sort(ids)
	pipe := client.Pipeline()
	texts, lives := make([]*redis.StringCmd, len(ids)), make([]*redis.DurationCmd, len(ids))
	for i, id := range ids {
		_, own := snapshotKeys(prefix, id)
		texts[i], lives[i] = pipe.Get(ctx, own), pipe.PTTL(ctx, own)
	}
	asked := time.Now()
	if _, err := pipeline.Exec(ctx, pipe); err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("read the workers' snapshots: %w", err)
	}
	all := make([]Snapshot, 0, len(ids))
	for i := range ids {
		var s Snapshot
		if life := lives[i].Val(); life > 0 && json.Unmarshal([]byte(texts[i].Val()), &s) == nil { // else expired, or written by a different version
			s.At = asked.Add(life - snapshotLife).UTC()
			all = append(all, s)
		}
	}
	return all, nil
}

// CheckSnapshotWrites returns an error if Redis refuses writes: then workers cannot publish
// snapshots, and may run without being seen.
func CheckSnapshotWrites(ctx context.Context, client redis.UniversalClient, prefix string) error {
	_, none := snapshotKeys(prefix, "none")
	err := client.LPushX(ctx, none, "").Err() // a write to a list that does not exist
	if redisreply.Of(err) == redisreply.None {
		return nil
	}
	return fmt.Errorf("workers cannot report that they run: %w", err)
}

// PublishSnapshot publishes a worker's snapshot.
func PublishSnapshot(ctx context.Context, client redis.UniversalClient, prefix string, s *Snapshot) error {
	slices.SortStableFunc(s.Routes, func(a, b route.Status) int { return b.Severity() - a.Severity() })
	if n := len(s.Routes) - maxSnapshotRoutes; n > 0 {
		s.Routes, s.MoreRoutes = s.Routes[:maxSnapshotRoutes], n
	}
	slices.SortFunc(s.Quotas, func(a, b route.QuotaStatus) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Key, b.Key))
	})
	s.Quotas = s.Quotas[:min(len(s.Quotas), maxSnapshotRoutes)]
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	alive, own := snapshotKeys(prefix, s.ID)
	return publishScript.Run(ctx, client, []string{own, alive}, text, int(snapshotLife.Seconds()), s.ID).Err()
}

// RemoveSnapshot removes a worker's snapshot.
func RemoveSnapshot(ctx context.Context, client redis.UniversalClient, prefix, id string) error {
	alive, own := snapshotKeys(prefix, id)
	pipe := client.TxPipeline()
	pipe.Del(ctx, own)
	pipe.ZRem(ctx, alive, id)
	_, err := pipeline.Exec(ctx, pipe)
	return err
}
