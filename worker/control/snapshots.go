package control

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

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
	// Pulls says that its lanes get an answer when they ask Redis for jobs.
	Pulls       bool `json:"pulls"`
	Lanes       int  `json:"lanes"`
	Concurrency int  `json:"concurrency"`
	// Waiting is how many notifications wait in the process for their instant.
	Waiting int `json:"waiting"`
	// Routes are the ways to the providers, those in trouble first, and MoreRoutes
	// how many were left out.
	Routes     []route.Status `json:"routes"`
	MoreRoutes int            `json:"more_routes,omitempty"`
	// Limits tells that the limits' store is away; zero when it is not.
	Limits LimitsAway `json:"limits_away,omitzero"`
	// RedisAheadBy is how far Redis's clock is ahead of the worker's.
	RedisAheadBy time.Duration `json:"redis_ahead_by_ns"`
}

// LimitsAway is since when the limits' store is away, and why.
type LimitsAway struct {
	Since time.Time `json:"since"`
	Cause string    `json:"cause,omitempty"`
}

const (
	// snapshotLife is how long a worker's last snapshot is kept: several times as
	// long as it takes to the next.
	snapshotLife = 6 * time.Second
	// A snapshot names so many routes, and so many workers' are read.
	snapshotRoutes = 256
	snapshotsMost  = 1000
)

// The snapshots of all workers are in two keys, both as short-lived as they are:
//
//	PREFIX:{workers}:alive      sorted set of IDs, by when they are forgotten, in
//	                            Unix ms of Redis's clock
//	PREFIX:{workers}:snapshots  hash of JSON by ID
func snapshotKeys(prefix string) []string {
	prefix = cmp.Or(prefix, "pushpace") + ":{workers}:"
	return []string{prefix + "alive", prefix + "snapshots"}
}

// snapshotScript keeps a worker's snapshot, or drops it, and forgets those of
// workers that are gone. It returns Redis's clock in ms.
//
// KEYS  alive, snapshots
// ARGV  ID, life (ms, 0 to drop it), JSON
var snapshotScript = redis.NewScript(`
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local life = tonumber(ARGV[2])
if life > 0 then
  redis.call('ZADD', KEYS[1], now + life, ARGV[1])
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
else
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('HDEL', KEYS[2], ARGV[1])
end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 100)) do
  redis.call('ZREM', KEYS[1], id)
  redis.call('HDEL', KEYS[2], id)
end
if life > 0 then
  redis.call('PEXPIRE', KEYS[1], life)
  redis.call('PEXPIRE', KEYS[2], life)
end
return now
`)

// snapshotsScript returns Redis's clock in ms, and of each worker until when its
// snapshot is kept, and the snapshot.
//
// KEYS  alive, snapshots
// ARGV  how many workers at most
var snapshotsScript = redis.NewScript(`
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local answer = {now}
local alive = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[1])
for i = 1, #alive, 2 do
  local snapshot = redis.call('HGET', KEYS[2], alive[i])
  if snapshot then
    answer[#answer + 1] = tonumber(alive[i + 1])
    answer[#answer + 1] = snapshot
  end
end
return answer
`)

// ReadSnapshots returns what the workers that are alive have left under the
// prefix, "pushpace" when it is empty: by ID, of 1,000 workers at most. One that
// was killed is there for some seconds more.
func ReadSnapshots(ctx context.Context, client redis.UniversalClient, prefix string) ([]Snapshot, error) {
	asked := time.Now()
	reply, err := snapshotsScript.Run(ctx, client, snapshotKeys(prefix), snapshotsMost).Slice()
	if err != nil {
		return nil, fmt.Errorf("read the workers' snapshots: %w", err)
	}
	now, _ := reply[0].(int64)
	all := make([]Snapshot, 0, len(reply)/2)
	for i := 1; i+1 < len(reply); i += 2 {
		until, _ := reply[i].(int64)
		text, _ := reply[i+1].(string)
		var s Snapshot
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			continue // of a version that writes it otherwise
		}
		s.At = asked.Add(time.Duration(until-now)*time.Millisecond - snapshotLife).UTC()
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Snapshot) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}

// LeaveSnapshot keeps a worker's snapshot for others to read, or with gone has them
// forget that worker.
func LeaveSnapshot(ctx context.Context, client redis.UniversalClient, prefix string, s *Snapshot, gone bool) error {
	life, text := snapshotLife, []byte(nil)
	if gone {
		life = 0
	} else {
		slices.SortStableFunc(s.Routes, func(a, b route.Status) int { return b.Severity() - a.Severity() })
		if n := len(s.Routes) - snapshotRoutes; n > 0 {
			s.Routes, s.MoreRoutes = s.Routes[:snapshotRoutes], n
		}
		var err error
		if text, err = json.Marshal(s); err != nil {
			return err
		}
	}
	return snapshotScript.Run(ctx, client, snapshotKeys(prefix), s.ID, life.Milliseconds(), text).Err()
}
