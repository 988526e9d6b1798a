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

// A Share is how many notifications wait for one cause.
type Share struct {
	For   Cause `json:"for"`
	Count int64 `json:"count"`
	// Oldest is when the first of those that were looked at was accepted.
	Oldest time.Time `json:"oldest,omitzero"`
	// Sampled says that Count is an estimate, from jobs drawn at random.
	Sampled bool `json:"sampled,omitempty"`

	count float64 // exactly
	// by is what those that were looked at make of it by app, each for as many as it
	// stands for.
	by map[string]*Share
}

// add adds so many, the oldest of which was accepted then.
func (s *Share) add(count float64, oldest time.Time, sampled bool) {
	s.count, s.Oldest, s.Sampled = s.count+count, earlier(s.Oldest, oldest), s.Sampled || sampled
	s.Count = int64(math.Round(s.count))
}

// SharesOf returns what the apps have of the shares, by the notifications that were
// looked at, without the causes of none, and whether not all were.
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

// A Backlog is what waits, and what keeps it.
type Backlog struct {
	// Waits are in the order of Causes, without the causes of none.
	Waits []Share
	// Pauses are Control.Pauses'.
	Pauses []pause.Pause
}

// Backlog returns what notifications wait for, by what these workers tell, PausesSeen and
// store.ReadJobs. Where fewer than 5,000 wait, all are looked into. Of more, asynq counts those that are due, in hand and
// scheduled; of the rest, and of those that are due while something is paused or a route is
// open, 200 of each queue are drawn, all of them where they are no more. It takes a few round
// trips and a few steps for each job that is looked into. Of a shard whose jobs were not
// counted it tells nothing: see store.Each.
func (c *Inspector) Backlog(ctx context.Context, workers []control.Snapshot, pauses []pause.Pause, jobs map[int]store.Jobs) (*Backlog, error) {
	return c.backlog(ctx, &surroundings{workers, pauses}, jobs)
}

// OldestDue returns since when the job is due that is due the longest and that none of the pauses
// holds; zero when none is. It is of the shards that answer: see store.Each.
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

// Waits is Backlog's, by what the workers that are alive tell.
func (c *Inspector) Waits(ctx context.Context) ([]Share, error) {
	in, err := c.surroundings(ctx)
	if err != nil {
		return nil, err
	}
	b, err := c.backlogNow(ctx, in)
	return b.Waits, err
}

// backlogNow is backlog of the jobs that there are now.
func (c *Inspector) backlogNow(ctx context.Context, in *surroundings) (*Backlog, error) {
	jobs, err := store.ReadJobs(ctx, c.client, c.records)
	if _, err := store.Unread(err); err != nil {
		return &Backlog{}, err
	}
	return c.backlog(ctx, in, jobs)
}

// A draw is what is drawn of a spot.
type draw struct {
	at      store.Spot
	size    int64
	looked  int // how many of them were looked into
	waiting []Queued
}

// errUncounted stands for why the jobs of a shard were not counted.
var errUncounted = fmt.Errorf("its jobs were not counted: %w", context.DeadlineExceeded)

func (c *Inspector) backlog(ctx context.Context, in *surroundings, sizes map[int]store.Jobs) (*Backlog, error) {
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
	kept := make([]float64, len(in.pauses)) // by the pause that keeps them
	var draws []draw
	for _, n := range slices.Sorted(maps.Keys(all)) { // in one order, by which sums are rounded
		draws = append(draws, all[n]...)
	}
	for _, d := range draws {
		stands := max(1, float64(d.size)/float64(d.looked)) // for so many each stands that was drawn
		if exact {
			stands = 1 // others have moved on since they were counted
		}
		each := stands
		if one := in.only(d.at.State); one != "" && !exact {
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
			for _, i := range q.kept {
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

// draw draws so many jobs of each of a shard's spots.
func (c *Inspector) draw(ctx context.Context, shard *store.Shard, sizes store.Jobs, sample int, in *surroundings) ([]draw, error) {
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

// allBelow reports whether there are fewer jobs than that.
func allBelow(sizes store.Jobs, most int) bool {
	n := int64(0)
	for _, at := range store.Spots {
		n += sizes[at.Queue][at.State]
	}
	return n < int64(most)
}

// earlier is the earlier one of two instants, of which a zero one is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
