package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"

	"github.com/pushpace/pushpace/internal/base/acknowledged"
	"github.com/pushpace/pushpace/internal/base/pipeline"
)

// A Layout is into how many shards a Redis is divided. Redis keeps it, in the hash
// PREFIX:layout, as its first user wants it, and everybody reads it there: who thought
// otherwise would look for jobs and records where they are not. A Cluster keeps copies for
// when that hash's master is away, or has lost it. It is safe for concurrent use.
type Layout struct {
	client redis.UniversalClient
	prefix string
	wish   int

	asking singleflight.Group
	shards atomic.Pointer[Shards] // nil until they are known
}

// NewLayout returns the layout of the client's Redis under the prefix. wish is how many
// shards there are to be where nobody has said so yet; 0 means 8 on a Cluster, else one.
func NewLayout(client redis.UniversalClient, prefix string, wish int) *Layout {
	if _, cluster := pipeline.OfCluster(client); wish == 0 && cluster {
		wish = onCluster
	}
	return &Layout{client: client, prefix: prefix, wish: max(1, wish)}
}

// onCluster is how many shards a Cluster has where nothing is said: each is served by one
// core at a time, and what is done of one shard at about the same time shares its cost.
const onCluster = 8

// Shards returns the shards, which it asks Redis for once. Callers who come meanwhile share
// the answer.
func (l *Layout) Shards(ctx context.Context) (Shards, error) {
	if known := l.shards.Load(); known != nil {
		return *known, nil
	}
	asked := l.asking.DoChan("", func() (any, error) {
		n, err := l.settled(context.WithoutCancel(ctx))
		if err != nil {
			return nil, fmt.Errorf("how many shards there are: %w", err)
		}
		shards := Named(l.client, l.prefix, n)
		l.shards.Store(&shards)
		return shards, nil
	})
	select {
	case answer := <-asked:
		shards, _ := answer.Val.(Shards)
		return shards, answer.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ownWithin is how long a Redis may take to say how it is divided, before its copies are asked.
const ownWithin = 2 * time.Second

// settled returns how many shards there are, from now on.
func (l *Layout) settled(ctx context.Context) (int, error) {
	near, cancel := context.WithTimeout(ctx, ownWithin)
	n, err := l.read(near, Key(l.prefix))
	cancel()
	if err == nil && n > 0 {
		return n, nil
	}
	if n, copied := l.copied(ctx); n > 0 {
		return n, nil
	} else if err = errors.Join(err, copied); err != nil { // it may be divided already
		return 0, err
	}
	wish := l.wish
	if n, err := l.client.Exists(ctx, Named(l.client, l.prefix, 1)[0].Key("counts")).Result(); err != nil {
		return 0, err
	} else if n > 0 { // what is there is undivided
		wish = 1
	}
	if err := l.client.HSetNX(ctx, Key(l.prefix), "shards", wish).Err(); err != nil && !errors.Is(err, acknowledged.ErrUnacknowledged) {
		return 0, err // the workers write it again
	}
	if n, err = l.read(ctx, Key(l.prefix)); err != nil {
		return 0, err
	}
	_ = l.write(ctx, n) // else the workers do
	return n, nil
}

// read returns how many shards a key says there are; 0 where it says nothing.
func (l *Layout) read(ctx context.Context, key string) (int, error) {
	text, err := l.client.HGet(ctx, key, "shards").Result()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(text)
	if err != nil || !Valid(n) {
		return 0, fmt.Errorf("%s says %q: another pushpace has written it, or somebody by hand", key, text)
	}
	return n, nil
}

// copied returns how many shards the first copy says there are that says so, or 0, and why
// others do not answer.
func (l *Layout) copied(ctx context.Context) (int, error) {
	type answer struct {
		n   int
		err error
	}
	keys := l.copies()
	answers := make(chan answer, len(keys))
	for _, key := range keys {
		go func() {
			n, err := l.read(ctx, key)
			answers <- answer{n, err}
		}()
	}
	var failed error
	for range keys {
		a := <-answers
		if a.n > 0 {
			return a.n, nil
		}
		failed = cmp.Or(failed, a.err)
	}
	return 0, failed
}

// copies are the keys of the copies: on a Cluster, far apart among the slots.
func (l *Layout) copies() (keys []string) {
	if _, cluster := pipeline.OfCluster(l.client); !cluster {
		return nil
	}
	for _, s := range Named(l.client, l.prefix, onCluster) {
		keys = append(keys, s.Key("layout"))
	}
	return keys
}

// Keep has Redis say again into how many shards it is divided, as this layout knows it: a
// failover may have lost it.
func (l *Layout) Keep(ctx context.Context) error {
	shards, err := l.Shards(ctx)
	if err != nil {
		return err
	}
	return l.write(ctx, len(shards))
}

func (l *Layout) write(ctx context.Context, n int) error {
	keys := append(l.copies(), Key(l.prefix))
	errs := make([]error, len(keys))
	var writing sync.WaitGroup // side by side: a master that hangs keeps no other back
	for i, key := range keys {
		writing.Go(func() { errs[i] = l.client.HSetNX(ctx, key, "shards", n).Err() })
	}
	writing.Wait()
	return errors.Join(errs...)
}

// Key is that of the layout of what begins with the prefix.
func Key(prefix string) string { return prefix + ":layout" }

// Valid reports whether there may be so many shards: a power of two up to Most.
func Valid(n int) bool { return n > 0 && n <= Most && n&(n-1) == 0 }
