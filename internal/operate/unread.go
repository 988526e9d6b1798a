package operate

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// A Part is a part of an overview that is read separately. Parts are a closed set, and named like
// the overview's fields.
type Part string

// The parts.
const (
	PartWorkers     Part = "workers" // with the providers, quotas and lateness that they report
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

// Words returns the part's name for a person.
func (p Part) Words() string { return partNames[p] }

var partNames = map[Part]string{
	PartWorkers: "workers and providers", PartWaiting: "number of waiting notifications", PartWaits: "causes of waiting", PartPauses: "pauses", PartOldestDue: "oldest due job",
	PartQueues: "queues", PartMinutes: "what was done", PartLetters: "dead letters", PartLost: "losses of data", PartRedis: "redis", PartLimitsRedis: "limits' redis",
}

var (
	// ofQueue are the parts in the queue's Redis: if all of them fail there is no overview.
	ofQueue = []Part{PartWorkers, PartWaiting, PartWaits, PartOldestDue, PartPauses, PartQueues, PartMinutes, PartLetters, PartLost}
	// ofSome are the parts that a principal of some apps sees.
	ofSome = []Part{PartWorkers, PartWaits, PartPauses, PartLetters}
)

// An Unread is a part of an overview that could not be read: its zero fields mean nothing. If it
// has Shards, only the values of these shards are missing.
type Unread struct {
	Part Part `json:"part"`
	// Problem is the error, without secrets.
	Problem string `json:"problem"`
	// Shards are the numbers of the shards that did not answer, if other shards did.
	Shards []int `json:"shards,omitempty"`
}

// NotRead returns why the part could not be read; "" if it was read, or some of its shards were.
func (o *Overview) NotRead(part Part) string {
	if i := slices.IndexFunc(o.Unread, func(u Unread) bool { return u.Part == part && u.Shards == nil }); i >= 0 {
		return o.Unread[i].Problem
	}
	return ""
}

// WaitingNotRead returns why Waiting is unknown; "" if it is known. For some apps, Waiting is the
// sum of Waits.
func (o *Overview) WaitingNotRead() string {
	if o.Apps != nil {
		return o.NotRead(PartWaits)
	}
	return o.NotRead(PartWaiting)
}

// unreadOf returns the unread parts that the principal of some apps sees. It hides the errors,
// which may name servers.
func (o *Operator) unreadOf(all []Unread) (its []Unread) {
	for _, u := range all {
		if slices.Contains(ofSome, u.Part) {
			its = append(its, Unread{u.Part, "Redis did not answer as it should", u.Shards})
		}
	}
	return its
}

// partWithin bounds the reads of an overview's parts, which run in parallel.
const partWithin = 2 * time.Second

// partsWithin is partWithin, or less if the whole overview has less time, so that it returns the
// parts that were read in time.
func (t times) partsWithin() time.Duration {
	if t.within == 0 {
		return partWithin
	}
	return min(partWithin, t.within-t.within/8)
}

// A reading is a value that is being read.
type reading[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// begin reads a value in a new goroutine.
func begin[T any](ctx context.Context, read func(context.Context) (T, error)) *reading[T] {
	r := &reading[T]{done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.value, r.err = safely(ctx, read)
	}()
	return r
}

// get returns the value when it is read, or ctx's error if ctx ends before.
func (r *reading[T]) get(ctx context.Context) (value T, err error) {
	select {
	case <-r.done:
	case <-ctx.Done():
		select {
		case <-r.done: // the value was read just before ctx ended
		default:
			return value, ctx.Err()
		}
	}
	return r.value, r.err
}

// safely calls read, and returns a panic as an error: in a new goroutine a panic would end the
// process.
func safely[T any](ctx context.Context, read func(context.Context) (T, error)) (value T, err error) {
	defer func() {
		if cause := recover(); cause != nil { // the panic's text may hold secrets
			err = fmt.Errorf("a panic: %T", cause)
		}
	}()
	return read(ctx)
}
