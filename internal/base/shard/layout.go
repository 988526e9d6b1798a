package shard

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"

	"github.com/pushpace/pushpace/internal/base/acknowledged"
	"github.com/pushpace/pushpace/internal/base/pipeline"
)

const onCluster = 8

// A Layout is the configured number of shards. Check compares it with the hash PREFIX:layout, which
// the first process writes: with a different number a process would search for jobs and records
// under wrong keys. Safe for concurrent use.
type Layout struct {
	client redis.UniversalClient
	prefix string
	n      int

	asking singleflight.Group
	last   atomic.Pointer[verdict] // nil before the first check
}

// A verdict is the result of a check.
type verdict struct {
	agreed bool
	wrong  error // nil if Redis did not answer
	at     time.Time
}

// NewLayout returns the layout of the client's Redis under the prefix. n = 0 means 8 shards on a
// Cluster and 1 elsewhere.
func NewLayout(client redis.UniversalClient, prefix string, n int) *Layout {
	if n == 0 {
		n = 1
		if _, cluster := pipeline.OfCluster(client); cluster {
			n = onCluster
		}
	}
	return &Layout{client: client, prefix: prefix, n: n}
}

// Shards returns the shards; nil if the number is not Valid. Call Check before each use.
func (l *Layout) Shards() Shards {
	if !Valid(l.n) {
		return nil
	}
	return NewShards(l.client, l.prefix, l.n)
}

const (
	// checkWithin bounds the wait for the key.
	checkWithin = 2 * time.Second
	// checkAgain is how long a result counts if the numbers differ, or Redis did not answer.
	checkAgain = 5 * time.Second
)

// Check returns a *WrongError if Redis has a different number of shards. Only the first check waits.
// After the numbers were equal once, Redis is not asked again. While the key cannot be read, the
// configuration counts.
func (l *Layout) Check(ctx context.Context) error {
	if !Valid(l.n) {
		return fmt.Errorf("%d shards: want a power of two up to %d", l.n, MaxShards)
	}
	last := l.last.Load()
	if last != nil && (last.agreed || time.Since(last.at) < checkAgain) {
		return last.wrong
	}
	asked := l.asking.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkWithin)
		defer cancel()
		v := &verdict{}
		v.agreed, v.wrong = l.compare(ctx)
		v.at = time.Now()
		l.last.Store(v)
		return nil, v.wrong
	})
	if last != nil {
		return last.wrong
	}
	select {
	case answer := <-asked:
		return answer.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// compare compares the number with the key, and writes the key if it does not exist. The error
// is a *WrongError.
func (l *Layout) compare(ctx context.Context) (agreed bool, err error) {
	key := l.prefix + ":layout"
	kept, err := l.client.HGet(ctx, key, "shards").Result()
	if errors.Is(err, redis.Nil) {
		if err := l.client.HSetNX(ctx, key, "shards", l.n).Err(); err != nil && !errors.Is(err, acknowledged.ErrUnacknowledged) {
			return false, nil
		}
		kept, err = l.client.HGet(ctx, key, "shards").Result() // another process may have been first
	}
	switch {
	case err != nil:
		return false, nil
	case kept != strconv.Itoa(l.n):
		return false, &WrongError{key, l.n, kept}
	}
	return true, nil
}

// Keep writes the key if it does not exist.
func (l *Layout) Keep(ctx context.Context) error {
	return l.client.HSetNX(ctx, l.prefix+":layout", "shards", l.n).Err()
}

// A WrongError means that Redis has a different number of shards than the configuration.
type WrongError struct {
	Key        string
	Configured int
	Kept       string // in Redis
}

// Error implements error.
func (e *WrongError) Error() string {
	return fmt.Sprintf("redis.shards is %d here, and Redis has %s shards (%s): set redis.shards: %s, or in Go WithShards(%s)", e.Configured, e.Kept, e.Key, e.Kept, e.Kept)
}

// Valid reports whether n is a valid number of shards: a power of two up to MaxShards.
func Valid(n int) bool { return n > 0 && n <= MaxShards && n&(n-1) == 0 }
