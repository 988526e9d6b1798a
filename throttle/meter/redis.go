package meter

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/throttle"
)

// Redis is the Meter that all processes of one Redis share, on its clock. A take is one
// script on one key, and shares round trips on a client whose commands do:
//
//	PREFIX:{meter/KEY}:bucket   what is owed: bucket.lua
//	PREFIX:{meter/KEY}:cells    the counts of windows: cells.lua
//
// The key expires as soon as it says nothing any more.
type Redis struct {
	client        redis.UniversalClient
	prefix        string
	bucket, cells *redis.Script
	timeout       time.Duration
}

//go:embed bucket.lua
var bucketSource string

//go:embed cells.lua
var cellsSource string

// timeout bounds a take, also when Redis accepts and never answers.
const timeout = time.Second

// NewRedis returns a meter on the client, which needs ContextTimeoutEnabled and stays
// the caller's, with that prefix of all keys, "pushpace" when it is empty.
func NewRedis(client redis.UniversalClient, prefix string) *Redis {
	return &Redis{client, cmp.Or(prefix, "pushpace"), redis.NewScript(bucketSource), redis.NewScript(cellsSource), timeout}
}

// Take implements Meter.
func (r *Redis) Take(ctx context.Context, key string, s Spec, a Ask) (Answer, error) {
	if err := s.check(key, a); err != nil || s.lapse(a) {
		return Answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	script, name, args := r.bucket, r.prefix+":{meter/"+throttle.Escape(key)+"}:", []any(nil)
	if s.windowed() {
		script, name = r.cells, name+"cells"
		args = cellArgs(s.cells(), a)
	} else {
		name += "bucket"
		args = bucketArgs(s.bucket(), a)
	}
	reply, err := script.Run(ctx, r.client, []string{name}, args...).Int64Slice()
	if err != nil {
		return Answer{}, fmt.Errorf("meter %s: key %s: %w", key, name, throttle.StoreError("take", err))
	}
	if len(reply) != 3 || reply[2] < 0 || reply[2] > int64(len(s.Rates)) {
		return Answer{}, fmt.Errorf("meter %s: %w", key, errReply)
	}
	answer := Answer{Units: int(reply[0]), Left: time.Duration(reply[1]) * time.Microsecond}
	if denies := reply[2]; denies > 0 {
		answer.Rule = s.Rates[denies-1].String()
	}
	return answer, nil
}

var errReply = errors.New("Redis gave a reply of another shape than asked for")

func bucketArgs(t bucketTerms, a Ask) []any {
	slow := 0
	if a.Slow && t.ramp > 0 {
		slow = 1
	}
	return []any{t.unit, t.drain, t.covered(), t.full(), t.limit(a), t.ramp, slow, max(1, a.Least), a.Most}
}

func cellArgs(terms []cellTerms, a Ask) []any {
	args := []any{max(1, a.Least), a.Most}
	for _, t := range terms {
		args = append(args, t.count-a.Keep, t.length, t.span)
	}
	return args
}
