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

// A Snapshot is what one worker alone knows. Its instants are the worker's own,
// but for At.
type Snapshot struct {
	// ID is the host, the process and a random part.
	ID      string    `json:"id"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Version string    `json:"version,omitempty"`
	Started time.Time `json:"started"`
	// At is when it was left, on the reader's clock.
	At time.Time `json:"at"`
	// Draining says that it takes on nothing more and is about to end.
	Draining bool `json:"draining,omitempty"`
	// Pulls says that it gets an answer when it asks Redis for jobs.
	Pulls       bool `json:"pulls"`
	Concurrency int  `json:"concurrency"`
	// Routes are the ways to the providers, those in trouble first, and MoreRoutes
	// how many were left out.
	Routes     []route.Status `json:"routes"`
	MoreRoutes int            `json:"more_routes,omitempty"`
	// Quotas are what the worker knows of what all together may send, those that most
	// wait for in it first.
	Quotas []route.QuotaStatus `json:"quotas,omitempty"`
	// Minutes are what it did in the minutes that it has not added to Redis yet: the one
	// under way, and others before it where Redis did not take them.
	Minutes []Minute `json:"minutes,omitempty"`
	// LateP99 is how much after its slot one of a hundred goes out of those that a limit
	// alone held, in the last 15 minutes.
	LateP99 time.Duration `json:"late_p99_ns,omitempty"`
	// Limits tells that the limits' store is away; zero when it is not.
	Limits LimitsAway `json:"limits_away,omitzero"`
	// Silent are the shards of a Cluster that have not answered it for some seconds, with
	// what waited there before.
	Silent []store.Waited `json:"silent_shards,omitempty"`
	// RedisAheadBy is how far Redis's clock is ahead of the worker's.
	RedisAheadBy time.Duration `json:"redis_ahead_by_ns"`
}

// Of returns what of the snapshot is the apps' or the worker's own, without what it does
// for all apps together.
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

// LimitsAway is since when the limits' store is away, and why.
type LimitsAway struct {
	Since time.Time `json:"since"`
	Cause string    `json:"cause,omitempty"`
}

const (
	// snapshotLife is how long a worker's last snapshot is kept, and its ID: several times as
	// long as it takes to the next.
	snapshotLife = 6 * time.Second
	// snapshotRoutes bounds the routes, and the quotas, that a snapshot names, and snapshotsMost
	// the snapshots that are read: they bound the size of a command and of an answer.
	snapshotRoutes = 256
	snapshotsMost  = 1000
)

// snapshotKeys are where the snapshots of all workers are:
//
//	PREFIX:{workers}:alive    sorted set of IDs, by when each was last there, in Unix s
//	                          of Redis's clock
//	PREFIX:{workers}:ID       JSON, for as long as the worker is alive
func snapshotKeys(prefix, id string) (alive, own string) {
	prefix = cmp.Or(prefix, "pushpace") + ":{workers}:"
	return prefix + "alive", prefix + id
}

// leaveScript is one command each second, for all that a snapshot changes.
// KEYS  own, alive
// ARGV  snapshot, its life (s), ID
var leaveScript = acknowledged.Reader(redis.NewScript(`
local now = tonumber(redis.call('TIME')[1])
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
redis.call('ZADD', KEYS[2], now, ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - ARGV[2])
redis.call('EXPIRE', KEYS[2], ARGV[2])
return 1
`))

// ReadSnapshots returns what the workers that are alive have left under the
// prefix, "pushpace" when it is empty: by ID, of 1,000 workers at most. One that
// was killed is there for some seconds more.
func ReadSnapshots(ctx context.Context, client redis.UniversalClient, prefix string) ([]Snapshot, error) {
	alive, _ := snapshotKeys(prefix, "")
	ids, err := client.ZRevRange(ctx, alive, 0, snapshotsMost-1).Result()
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
		if life := lives[i].Val(); life > 0 && json.Unmarshal([]byte(texts[i].Val()), &s) == nil { // else gone, or of another version
			s.At = asked.Add(life - snapshotLife).UTC()
			all = append(all, s)
		}
	}
	return all, nil
}

// Unseen returns an error if Redis refuses writes: then workers cannot leave snapshots, and
// may run unseen.
func Unseen(ctx context.Context, client redis.UniversalClient, prefix string) error {
	_, none := snapshotKeys(prefix, "none")
	err := client.LPushX(ctx, none, "").Err() // a write like any other, of a list that is not there
	if redisreply.Of(err) == redisreply.None {
		return nil
	}
	return fmt.Errorf("no worker can say that it runs: %w", err)
}

// LeaveSnapshot keeps a worker's snapshot for others to read.
func LeaveSnapshot(ctx context.Context, client redis.UniversalClient, prefix string, s *Snapshot) error {
	slices.SortStableFunc(s.Routes, func(a, b route.Status) int { return b.Severity() - a.Severity() })
	if n := len(s.Routes) - snapshotRoutes; n > 0 {
		s.Routes, s.MoreRoutes = s.Routes[:snapshotRoutes], n
	}
	slices.SortFunc(s.Quotas, func(a, b route.QuotaStatus) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Key, b.Key))
	})
	s.Quotas = s.Quotas[:min(len(s.Quotas), snapshotRoutes)]
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	alive, own := snapshotKeys(prefix, s.ID)
	return leaveScript.Run(ctx, client, []string{own, alive}, text, int(snapshotLife.Seconds()), s.ID).Err()
}

// DropSnapshot has others forget a worker.
func DropSnapshot(ctx context.Context, client redis.UniversalClient, prefix, id string) error {
	alive, own := snapshotKeys(prefix, id)
	pipe := client.TxPipeline()
	pipe.Del(ctx, own)
	pipe.ZRem(ctx, alive, id)
	_, err := pipeline.Exec(ctx, pipe)
	return err
}
