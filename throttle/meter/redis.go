package meter

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/throttle"
)

// Redis is the Meter shared by all processes of one Redis, on its clock. A take is one script on
// one key. On a client with shared round trips, concurrent takes also share the script:
//
//	PREFIX:{meter/KEY}:bucket   debt of a bucket: bucket.lua
//	PREFIX:{meter/KEY}:cells    the counts of windows: cells.lua
//
// A key expires when it no longer affects a take.
type Redis struct {
	client        redis.UniversalClient
	prefix        string
	bucket, cells *redis.Script
	batches       *pipeline.Batches[*takes]
	timeout       time.Duration // 0 if the client's pipeline has one
}

//go:embed bucket.lua
var bucketSource string

//go:embed cells.lua
var cellsSource string

// NewRedis returns a meter on the client, which needs ContextTimeoutEnabled and which the caller
// closes. All keys have the prefix; empty means "pushpace".
func NewRedis(client redis.UniversalClient, prefix string) *Redis {
	r := &Redis{client: client, prefix: cmp.Or(prefix, "pushpace") + ":{meter/", batches: pipeline.NewBatches[*takes](client),
		bucket: redis.NewScript(bucketSource), cells: redis.NewScript(cellsSource)}
	if !pipeline.Shares(client) {
		r.timeout = recheck // Redis may never answer
	}
	return r
}

// Take implements Meter.
func (r *Redis) Take(ctx context.Context, key string, s Spec, a Ask) (Answer, error) {
	if err := s.check(key, a); err != nil || s.lapse(a) {
		return Answer{}, err
	}
	if r.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.timeout)
		defer cancel()
	}
	script, suffix, terms := r.bucket, "bucket", []int64(nil)
	if s.isWindow() {
		script, suffix, terms = r.cells, "cells", cellArgs(s.cells(), a)
	} else {
		terms = bucketArgs(s.bucket(), a)
	}
	name := r.prefix + throttle.Escape(key) + "}:" + suffix
	var shared *takes
	var i int
	err := r.batches.Do(ctx, name, kind(suffix, terms),
		func() *takes { return &takes{client: r.client, script: script, terms: terms} },
		func(t *takes) {
			i, shared = t.Len(), t
			t.add(name)
		})
	if err != nil {
		return Answer{}, fmt.Errorf("meter %s: key %s: %w", key, name, throttle.WrapStoreError("take", err))
	}
	answer, denies, err := shared.read(i)
	if err != nil || denies < 0 || denies > len(s.Rates) {
		return Answer{}, fmt.Errorf("meter %s: %w", key, errReply)
	}
	if denies > 0 {
		answer.Rule = s.Rates[denies-1].String()
	}
	return answer, nil
}

func bucketArgs(t bucketTerms, a Ask) []int64 {
	return []int64{t.unit, t.drain, t.covered(), t.full(), t.limit(a), t.ramp, max(1, int64(a.Least)), int64(a.Most)}
}

func cellArgs(rates []cellTerms, a Ask) []int64 {
	args := []int64{max(1, int64(a.Least)), int64(a.Most)}
	for _, t := range rates {
		args = append(args, int64(t.count-a.Keep), t.length, int64(t.span))
	}
	return args
}
