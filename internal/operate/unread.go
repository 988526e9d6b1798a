package operate

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// A Part of an overview is read on its own. It is from a closed set, and its name is that
// of a field of the overview.
type Part string

// The parts.
const (
	PartWorkers     Part = "workers" // with the providers, quotas and lateness, which the workers tell of
	PartWaiting     Part = "waiting"
	PartWaits       Part = "waits"
	PartOldestDue   Part = "oldest_due"
	PartPauses      Part = "pauses"
	PartQueues      Part = "queues"
	PartMinutes     Part = "minutes"
	PartLetters     Part = "dead_letters"
	PartLost        Part = "lost"
	PartRedis       Part = "redis"
	PartLimitsRedis Part = "limits_redis"
)

// Words is the part's name for a person.
func (p Part) Words() string { return partNames[p] }

var partNames = map[Part]string{
	PartWorkers: "workers and providers", PartWaiting: "how many wait", PartWaits: "what they wait for", PartPauses: "pauses", PartOldestDue: "since when the oldest is due",
	PartQueues: "queues", PartMinutes: "what was done", PartLetters: "dead letters", PartLost: "losses of data", PartRedis: "redis", PartLimitsRedis: "limits' redis",
}

var (
	// ofQueue are the parts that the queue's Redis holds: without all of them there is no
	// overview.
	ofQueue = []Part{PartWorkers, PartWaiting, PartWaits, PartOldestDue, PartPauses, PartQueues, PartMinutes, PartLetters, PartLost}
	// ofSome are the parts that a bearer of some apps has.
	ofSome = []Part{PartWorkers, PartWaits, PartPauses, PartLetters}
)

// An Unread part of an overview could not be read: its fields are zero, which says nothing. Where
// it has shards they are without those alone.
type Unread struct {
	Part Part `json:"part"`
	// Problem is why, without secrets.
	Problem string `json:"problem"`
	// Shards are those that did not answer, by their numbers, where others did.
	Shards []int `json:"shards,omitempty"`
}

// NotRead says why the part could not be read; "" where it was read, if only of some shards.
func (o *Overview) NotRead(part Part) string {
	if i := slices.IndexFunc(o.Unread, func(u Unread) bool { return u.Part == part && u.Shards == nil }); i >= 0 {
		return o.Unread[i].Problem
	}
	return ""
}

// WaitingNotRead says why Waiting is not known; "" where it is. Of some apps it is the sum of
// Waits.
func (o *Overview) WaitingNotRead() string {
	if o.Apps != nil {
		return o.NotRead(PartWaits)
	}
	return o.NotRead(PartWaiting)
}

// unreadOf returns the parts that could not be read of those that the operator sees. Of some
// apps it leaves out why, which may name servers.
func (o *Operator) unreadOf(all []Unread) (its []Unread) {
	for _, u := range all {
		if slices.Contains(ofSome, u.Part) {
			its = append(its, Unread{u.Part, "Redis did not answer as it should", u.Shards})
		}
	}
	return its
}

// partWithin bounds how long the parts of an overview may take, which are read at once.
const partWithin = 2 * time.Second

// partsWithin is partWithin, or less where the whole overview may not take so long: what was
// read by then is to be told in time.
func (t times) partsWithin() time.Duration {
	if t.within == 0 {
		return partWithin
	}
	return min(partWithin, t.within-t.within/8)
}

// A reading is of a value that is being read.
type reading[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// begin reads a value beside others.
func begin[T any](ctx context.Context, read func(context.Context) (T, error)) *reading[T] {
	r := &reading[T]{done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.value, r.err = safely(ctx, read)
	}()
	return r
}

// get returns the value once it is read, or that ctx has ended before.
func (r *reading[T]) get(ctx context.Context) (value T, err error) {
	select {
	case <-r.done:
	case <-ctx.Done():
		select {
		case <-r.done: // before, or just now
		default:
			return value, ctx.Err()
		}
	}
	return r.value, r.err
}

// safely is read, with an error in the place of a panic: in a goroutine of its own that
// would end the process.
func safely[T any](ctx context.Context, read func(context.Context) (T, error)) (value T, err error) {
	defer func() {
		if cause := recover(); cause != nil { // whose text may hold anything
			err = fmt.Errorf("a panic: %T", cause)
		}
	}()
	return read(ctx)
}
