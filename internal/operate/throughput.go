package operate

import (
	"context"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
)

// A Throughput is the recent work of all workers, including ones that have ended.
type Throughput struct {
	At time.Time `json:"at"`
	// Every is the length of a bucket. Buckets cover the whole range, including idle times,
	// oldest first; the last bucket has not ended.
	Every   time.Duration `json:"every_ns"`
	Buckets []Bucket      `json:"buckets"`
}

// A Bucket counts the work between its instant and the next bucket's.
type Bucket struct {
	At time.Time `json:"at"`
	// Sent counts pushes, Deferred deferrals by a limit, and Failed notifications that ended
	// rejected, exhausted, undeliverable or malformed.
	Sent      int64 `json:"sent"`
	Deferred  int64 `json:"deferred"`
	Failed    int64 `json:"failed"`
	Delivered int64 `json:"delivered"`
}

// A Range is the time that a throughput covers, from a closed set.
type Range string

// The ranges.
const (
	QuarterHour Range = "15m"
	Hour        Range = "1h"
	Day         Range = "24h"
)

// Ranges are all ranges.
var Ranges = []Range{QuarterHour, Hour, Day}

// buckets are the number and the length of a range's buckets.
var buckets = map[Range]struct {
	count int
	every time.Duration
}{QuarterHour: {15, time.Minute}, Hour: {60, time.Minute}, Day: {96, 15 * time.Minute}}

// Throughput returns the work of all workers in the range, recently read; "" is QuarterHour. It
// is not counted by app: a principal of some apps gets an *OthersError. An unknown range is an
// *UnknownError.
func (o *Operator) Throughput(ctx context.Context, r Range) (*Throughput, error) {
	if err := o.may(Look); err != nil {
		return nil, err
	}
	if err := o.all(); err != nil {
		return nil, err
	}
	if r == "" {
		r = QuarterHour
	}
	if _, there := buckets[r]; !there {
		return nil, &UnknownError{Kind: "range", Problem: "range must be 15m, 1h or 24h"}
	}
	return o.s.throughput.get(ctx, r)
}

func (s *Service) readThroughput(ctx context.Context, r Range) (*Throughput, error) {
	workers := begin(ctx, s.workers)
	t := newThroughput(time.Now(), r)
	added, err := s.readMinutes(ctx, t.At, int(t.At.Sub(t.Buckets[0].At)/time.Minute)+1)
	if err != nil {
		return nil, err
	}
	alive, err := workers.get(ctx)
	if err != nil {
		return nil, err
	}
	t.add(sumMinutes(added, alive))
	return t, nil
}

// newThroughput returns a throughput of empty buckets.
func newThroughput(now time.Time, r Range) *Throughput {
	b := buckets[r]
	t := &Throughput{At: now.UTC(), Every: b.every, Buckets: make([]Bucket, b.count)}
	for i := range t.Buckets {
		t.Buckets[i].At = t.At.Truncate(b.every).Add(time.Duration(i+1-b.count) * b.every)
	}
	return t
}

// add adds each minute to its bucket.
func (t *Throughput) add(minutes []control.Minute) {
	for _, m := range minutes {
		i := int(m.At.Sub(t.Buckets[0].At) / t.Every)
		if m.At.Before(t.Buckets[0].At) || i >= len(t.Buckets) {
			continue
		}
		b := &t.Buckets[i]
		b.Sent += m.Sent
		b.Deferred += m.Deferred
		b.Delivered += m.Ended[push.Delivered]
		b.Failed += m.Failed()
	}
}
