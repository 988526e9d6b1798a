package control

import (
	"context"
	"math"
	"time"

	"github.com/pushpace/pushpace/worker/queue"
)

// A Share is how many notifications wait for one cause.
type Share struct {
	For   Cause `json:"for"`
	Count int64 `json:"count"`
	// Oldest is when the first of those that were looked at was accepted.
	Oldest time.Time `json:"oldest,omitzero"`
	// Sampled says that Count is an estimate, from jobs drawn at random.
	Sampled bool `json:"sampled,omitempty"`
}

// Waits returns what notifications wait for, in the order of Causes, without the
// causes of none. asynq counts those that are due, in hand and scheduled; of the
// rest, so many of each queue are drawn at random, all of them where they are no
// more. It takes a few round trips and a few steps for each job drawn, however
// many there are.
func (c *Control) Waits(ctx context.Context, sample int) ([]Share, error) {
	sizes, err := queue.ReadJobs(ctx, c.client)
	if err != nil {
		return nil, err
	}
	in, err := c.pauses.Read(ctx)
	if err != nil {
		return nil, err
	}
	shares := map[Cause]*Share{}
	for _, at := range queue.Spots {
		size := sizes[at.Queue][at.State]
		if size == 0 {
			continue
		}
		jobs, err := c.inspector.Sample(ctx, at, size, sample)
		if err != nil {
			return nil, err
		}
		for cause, one := range sharesOf(at.State, size, classify(at, jobs, Selection{}, in.Operators)) {
			shares[cause] = shares[cause].plus(one)
		}
	}
	var list []Share
	for _, cause := range Causes {
		if s := shares[cause]; s != nil {
			list = append(list, *s)
		}
	}
	return list, nil
}

// plus is both together.
func (s *Share) plus(other Share) *Share {
	if s == nil {
		return &other
	}
	s.Count += other.Count
	s.Sampled = s.Sampled || other.Sampled
	s.Oldest = earlier(s.Oldest, other.Oldest)
	return s
}

// earlier is the earlier one of two instants, of which a zero one is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// sharesOf tells what so many jobs of a state wait for by those that were drawn.
// In the states that have one cause, the count is the state's.
func sharesOf(state queue.JobState, size int64, drawn []Queued) map[Cause]Share {
	shares := map[Cause]Share{}
	for _, q := range drawn {
		s := shares[q.For]
		s.For, s.Count, s.Oldest = q.For, s.Count+1, earlier(s.Oldest, q.Accepted)
		shares[q.For] = s
	}
	if state != queue.JobPutOff {
		cause := waitsFor(time.Time{}, state, "", nil, nil)
		return map[Cause]Share{cause: {For: cause, Count: size, Oldest: shares[cause].Oldest}}
	}
	if scale := float64(size) / float64(len(drawn)); scale > 1 && len(drawn) > 0 {
		for cause, s := range shares {
			s.Count, s.Sampled = int64(math.Round(float64(s.Count)*scale)), true
			shares[cause] = s
		}
	}
	return shares
}
