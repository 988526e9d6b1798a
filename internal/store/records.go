package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/base/shard"
)

// Records hold the state of all notifications, each in its Shard. Safe for concurrent use.
type Records struct {
	client      redis.UniversalClient
	prefix      string
	retention   time.Duration
	bounds      Bounds
	layout      *shard.Layout
	shards      []*Shard
	lastWaiting *sync.Map // a LastWaiting by shard number
}

// LastWaiting is the number of waiting notifications in a shard when its counts were last read.
type LastWaiting struct {
	Shard   int       `json:"shard"`
	Waiting int64     `json:"waiting"`
	At      time.Time `json:"at"`
}

// DefaultRetention is how long an ID is known if no retention is configured.
const DefaultRetention = 24 * time.Hour

// NewRecords returns the records under the prefix, "pushpace" if it is empty. An ID is known for
// the retention after its acceptance; 0 means DefaultRetention. The number of shards is the
// default: see WithShards.
func NewRecords(client redis.UniversalClient, prefix string, retention time.Duration) *Records {
	if prefix == "" {
		prefix = "pushpace"
	}
	if retention <= 0 {
		retention = DefaultRetention
	}
	return (&Records{client: client, prefix: prefix, retention: retention, bounds: Bounds{DeadLetters: DefaultDeadLetters}}).WithShards(0)
}

// WithShards returns records in n shards. 0 means 8 on a Cluster and 1 elsewhere.
func (r *Records) WithShards(n int) *Records {
	own := *r
	own.layout, own.lastWaiting = shard.NewLayout(r.client, r.prefix, n), new(sync.Map)
	return own.bounded(r.bounds)
}

// Bounds limit the entries that are stored for each app.
type Bounds struct {
	// Outcomes is the approximate number of reports of ends; 0 for none. A report is written in the
	// step of the end.
	Outcomes int
	// DeadLetters is the number of dead letters. 0 means DefaultDeadLetters.
	DeadLetters int
	// Apps are the configured apps. All other apps share the bounds of one app. If Apps is nil,
	// every app has its own bounds.
	Apps map[string]bool
}

// DefaultDeadLetters is the bound of an app's dead letters if none is configured.
const DefaultDeadLetters = 10_000

// of returns the name under which an app's entries are counted for the bounds: its own, or "" for
// all apps that are not configured.
func (b *Bounds) of(app string) string {
	if b.Apps == nil || b.Apps[app] {
		return app
	}
	return ""
}

// WithBounds returns records with these bounds, divided among the shards.
func (r *Records) WithBounds(b Bounds) *Records {
	own := *r
	b.DeadLetters = cmp.Or(b.DeadLetters, DefaultDeadLetters)
	return own.bounded(b)
}

// bounded sets the bounds and makes the shards, each with its part of the bounds.
func (r *Records) bounded(b Bounds) *Records {
	named := r.layout.Shards()
	r.bounds, r.shards = b, make([]*Shard, len(named))
	for i, s := range named {
		its := Bounds{perShard(b.Outcomes, len(named)), perShard(b.DeadLetters, len(named)), b.Apps}
		r.shards[i] = &Shard{Shard: s, client: r.client, alone: pipeline.Unshared(r.client), prefix: r.prefix, retention: r.retention, bounds: its}
	}
	return r
}

// Prefix returns the prefix of all of pushpace's keys.
func (r *Records) Prefix() string { return r.prefix }

// All returns the shards by number, the same pointers at each call. If Redis stores a different
// number of shards, the error is a *shard.WrongError: see shard.Layout.Check.
func (r *Records) All(ctx context.Context) ([]*Shard, error) {
	if err := r.layout.Check(ctx); err != nil {
		return nil, err
	}
	return r.shards, nil
}

// perShard returns each shard's part of an app's bound.
func perShard(kept, shards int) int { return (kept + shards - 1) / shards }

// Relist repeats the writes that a failover may lose: the number of shards, and the list of queues
// for asynq's tools.
func (r *Records) Relist(ctx context.Context) error {
	shards, err := r.All(ctx)
	if err != nil {
		return err
	}
	var queues []any
	for _, at := range shards {
		for _, queue := range at.Queues() {
			queues = append(queues, queue)
		}
	}
	return errors.Join(r.layout.Keep(ctx), r.client.SAdd(ctx, shard.QueuesKey, queues...).Err())
}

// Of returns the shard of an app's user.
func (r *Records) Of(ctx context.Context, app, user string) (*Shard, error) {
	all, err := r.All(ctx)
	if err != nil {
		return nil, err
	}
	return all[shard.Of(len(all), app, user)], nil
}

// Briefs returns the briefs of notifications by ID. If several notifications share an ID, it
// returns one of them.
func (r *Records) Briefs(ctx context.Context, ids []string) (map[string]Brief, error) {
	all, err := Each(ctx, r, func(ctx context.Context, s *Shard) (map[string]Brief, error) { return s.Briefs(ctx, ids) })
	known := map[string]Brief{}
	for _, n := range slices.Sorted(maps.Keys(all)) {
		maps.Copy(known, all[n])
	}
	return known, err
}

// LettersFrom returns dead letters of all shards, and the cursor for the next call, like
// Shard.LettersFrom. It skips a shard that does not answer: see Walk.
func (r *Records) LettersFrom(ctx context.Context, cursor string, limit int) (letters []*Letter, next string, err error) {
	all, err := r.All(ctx)
	if err != nil {
		return nil, "", err
	}
	at, full := 0, false
	if number, rest, several := strings.Cut(cursor, "-"); several {
		if at, err = strconv.Atoi(number); err != nil || at < 0 || at >= len(all) || at == 0 && rest == "" {
			return nil, "", ErrCursor
		}
		cursor = rest
	}
	err = r.Walk(ctx, at, func(ctx context.Context, s *Shard) (bool, error) {
		if s.Number > at {
			at, cursor = s.Number, ""
		}
		some, then, err := s.LettersFrom(ctx, cursor, limit-len(letters))
		if err != nil {
			return false, err
		}
		letters, cursor = append(letters, some...), then
		full = then != "" || len(letters) >= limit
		return full, nil
	})
	if _, err := Unreachable(err); err != nil {
		return nil, "", err
	}
	if cursor == "" {
		at++
	}
	switch {
	case !full, at == len(all):
		return letters, "", err
	case at == 0:
		return letters, cursor, err
	}
	return letters, fmt.Sprintf("%d-%s", at, cursor), err
}

// Counts returns the sums over all shards. They are exact only while no notification changes.
func (r *Records) Counts(ctx context.Context) (Counts, error) {
	all, err := r.CountsOfEach(ctx)
	return Sum(all), err
}

// CountsOfEach returns the counts of each shard, by its number.
func (r *Records) CountsOfEach(ctx context.Context) (map[int]Counts, error) {
	return r.countsOf(ctx, func(redis.Pipeliner, *Shard) {})
}

// Sum adds the counts of shards.
func Sum(all map[int]Counts) (sum Counts) {
	for _, one := range all {
		sum = sum.Plus(one)
	}
	return sum
}

// LastWaitingBefore returns the LastWaiting of each shard that was last read before cutoff, sorted
// by shard. Use it for shards that cannot be read now.
func (r *Records) LastWaitingBefore(cutoff time.Time) (all []LastWaiting) {
	r.lastWaiting.Range(func(_, last any) bool {
		if w := last.(LastWaiting); w.At.Before(cutoff) {
			all = append(all, w)
		}
		return true
	})
	slices.SortFunc(all, func(a, b LastWaiting) int { return a.Shard - b.Shard })
	return all
}

// PrimaryCounts returns the counts of each shard, by its number. It fails on a replica: its counts
// may be old.
func (r *Records) PrimaryCounts(ctx context.Context) (map[int]Counts, error) {
	return r.countsOf(ctx, func(pipe redis.Pipeliner, s *Shard) { pipe.HIncrBy(ctx, s.Key("counts"), "accepted", 0) })
}

func (r *Records) countsOf(ctx context.Context, before func(redis.Pipeliner, *Shard)) (map[int]Counts, error) {
	return Each(ctx, r, func(ctx context.Context, s *Shard) (Counts, error) {
		pipe := r.client.Pipeline()
		before(pipe, s)
		counts := s.CountsOn(ctx, pipe)
		if _, err := pipe.Exec(ctx); err != nil {
			return Counts{}, fmt.Errorf("read the counts of notifications: %w", err)
		}
		sums, err := counts()
		if err == nil {
			r.lastWaiting.Store(s.Number, LastWaiting{s.Number, sums.Waiting(), time.Now().UTC()})
		}
		return sums, err
	})
}

// Plus returns the sum of c and o.
func (c Counts) Plus(o Counts) Counts {
	ended := map[State]int64{}
	for _, s := range EndStates {
		ended[s] = c.Ended[s] + o.Ended[s]
	}
	dropped := maps.Clone(c.Dropped)
	for name, n := range o.Dropped {
		if dropped == nil {
			dropped = map[Dropped]int64{}
		}
		dropped[name] += n
	}
	return Counts{
		Accepted: c.Accepted + o.Accepted, Ended: ended, Malformed: c.Malformed + o.Malformed, Deferred: c.Deferred + o.Deferred,
		Booked: c.Booked + o.Booked, DeadTokens: c.DeadTokens + o.DeadTokens, Letters: c.Letters + o.Letters, Dropped: dropped,
	}
}

// ErrConflict means that the ID belongs to another notification: of another user, or with different
// content. Nothing was enqueued.
var ErrConflict = errors.New("the ID is another notification's: it was used with another user or other content")
