package inspect

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// A Share is the number of notifications that wait for one cause.
type Share struct {
	For   Cause `json:"for"`
	Count int64 `json:"count"`
	// Oldest is the earliest acceptance among the sampled notifications.
	Oldest time.Time `json:"oldest,omitzero"`
	// Sampled means that Count is an estimate from a random sample.
	Sampled bool `json:"sampled,omitempty"`

	count float64 // Count before rounding
	// by is the estimate by app. Each sampled notification counts for the number that it represents.
	by map[string]*Share
}

// add adds count notifications; the oldest was accepted at oldest.
func (s *Share) add(count float64, oldest time.Time, sampled bool) {
	s.count, s.Oldest, s.Sampled = s.count+count, earlier(s.Oldest, oldest), s.Sampled || sampled
	s.Count = int64(math.Round(s.count))
}

// SharesOf returns the shares of the visible apps, from the sampled notifications and without
// empty causes, and whether they are estimates.
func SharesOf(all []Share, sees func(app string) bool) (list []Share, sampled bool) {
	list = []Share{}
	for _, s := range all {
		its := Share{For: s.For}
		for app, part := range s.by {
			sampled = sampled || part.Sampled
			if sees(app) {
				its.add(part.count, part.Oldest, part.Sampled)
			}
		}
		if its.Count > 0 {
			list = append(list, its)
		}
	}
	return list, sampled
}

// A Backlog is the waiting notifications by cause and by pause.
type Backlog struct {
	// Waits are in the order of Causes, without empty ones.
	Waits []Share
	// Pauses are as returned by Control.Pauses.
	Pauses []pause.Pause
}

// Backlog returns the waiting notifications by cause, from these snapshots, PausesOf and
// store.ReadJobs. If fewer than 5,000 jobs exist, it reads all of them. Otherwise it counts due,
// claimed and scheduled jobs, and samples up to 200 of the other jobs of each queue. It also samples
// due jobs while a pause is in force or a route is closed. It takes a few round trips and a few
// steps for each job read. It omits shards without counted jobs: see store.Each.
func (c *Inspector) Backlog(ctx context.Context, workers []control.Snapshot, pauses []pause.Pause, jobs map[int]store.Jobs) (*Backlog, error) {
	return c.backlog(ctx, &liveState{workers, pauses}, jobs)
}

// OldestDue returns the instant since which the longest overdue job without a pause is due; zero
// if none is due. It covers the shards that answer: see store.Each.
func (c *Inspector) OldestDue(ctx context.Context, pauses []pause.Pause) (oldest time.Time, err error) {
	now, held := time.Now(), map[string]bool{}
	for i := range pauses {
		name := pauses[i].Route()
		if pauses[i].Kind == pause.Operator {
			name = store.PauseName(pauses[i].Selector())
		}
		held[name] = true
	}
	all, err := store.Each(ctx, c.records, func(ctx context.Context, at *store.Shard) (time.Time, error) {
		return at.OldestDue(ctx, now, held)
	})
	for _, one := range all {
		oldest = earlier(oldest, one)
	}
	return oldest, err
}

// Waits returns the Waits of a Backlog, by the snapshots of live workers.
func (c *Inspector) Waits(ctx context.Context) ([]Share, error) {
	in, err := c.liveState(ctx)
	if err != nil {
		return nil, err
	}
	b, err := c.backlogNow(ctx, in)
	return b.Waits, err
}

// backlogNow is backlog with the current jobs.
func (c *Inspector) backlogNow(ctx context.Context, in *liveState) (*Backlog, error) {
	jobs, err := store.ReadJobs(ctx, c.client, c.records)
	if _, err := store.Unreachable(err); err != nil {
		return &Backlog{}, err
	}
	return c.backlog(ctx, in, jobs)
}

// A draw is a sample of the jobs of a store.Spot.
type draw struct {
	at      store.Spot
	size    int64
	looked  int // sampled jobs
	waiting []Queued
}

// errUncounted is the error for a shard without counted jobs.
var errUncounted = fmt.Errorf("its jobs were not counted: %w", context.DeadlineExceeded)

func (c *Inspector) backlog(ctx context.Context, in *liveState, sizes map[int]store.Jobs) (*Backlog, error) {
	shards, err := c.records.All(ctx)
	if err != nil {
		return &Backlog{}, err
	}
	exact, sample := allBelow(store.SumJobs(sizes), c.exact), max(min(leastSample, c.sample), c.sample/len(shards))
	if exact {
		sample = c.exact
	}
	all, err := store.Each(ctx, c.records, func(ctx context.Context, at *store.Shard) ([]draw, error) {
		if sizes[at.Number] == nil {
			return nil, errUncounted
		}
		return c.draw(ctx, at, sizes[at.Number], sample, in)
	})
	shares := map[Cause]*Share{}
	of := func(cause Cause) *Share {
		if shares[cause] == nil {
			shares[cause] = &Share{For: cause, by: map[string]*Share{}}
		}
		return shares[cause]
	}
	kept := make([]float64, len(in.pauses)) // by index of the pause
	var draws []draw
	for _, n := range slices.Sorted(maps.Keys(all)) { // a fixed order for equal rounding
		draws = append(draws, all[n]...)
	}
	for _, d := range draws {
		stands := max(1, float64(d.size)/float64(d.looked)) // the jobs that each sampled job represents
		if exact {
			stands = 1 // the other jobs have moved since the count
		}
		each := stands
		if one := in.commonCause(d.at.State); one != "" && !exact {
			of(one).add(float64(d.size), time.Time{}, false)
			each = 0
		}
		for _, q := range d.waiting {
			s := of(q.For)
			s.add(each, q.Accepted, each > 1)
			if s.by[q.App] == nil {
				s.by[q.App] = new(Share)
			}
			s.by[q.App].add(stands, q.Accepted, stands > 1)
			for _, i := range q.pausedBy {
				if operators := in.pauses[i].Kind == pause.Operator; operators == (q.For == ForPause) {
					kept[i] += stands
				}
			}
		}
	}
	b := &Backlog{Pauses: slices.Clone(in.pauses)}
	for i := range b.Pauses {
		b.Pauses[i].Waiting = int(math.Round(kept[i]))
	}
	for _, cause := range Causes {
		if s := shares[cause]; s != nil {
			b.Waits = append(b.Waits, *s)
		}
	}
	return b, err
}

// draw samples each of a shard's spots.
func (c *Inspector) draw(ctx context.Context, shard *store.Shard, sizes store.Jobs, sample int, in *liveState) ([]draw, error) {
	var all []draw
	for _, at := range store.Spots {
		size := sizes[at.Queue][at.State]
		if size == 0 {
			continue
		}
		jobs, err := shard.Sample(ctx, at, size, sample)
		if err != nil {
			return nil, err
		}
		list, err := c.classify(ctx, shard, at, jobs, Selection{}, in)
		if err != nil {
			return nil, err
		}
		all = append(all, draw{at, size, len(jobs), list})
	}
	return all, nil
}

// allBelow reports whether there are fewer jobs than limit.
func allBelow(sizes store.Jobs, limit int) bool {
	n := int64(0)
	for _, at := range store.Spots {
		n += sizes[at.Queue][at.State]
	}
	return n < int64(limit)
}

// earlier returns the earlier of two instants; zero means none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
