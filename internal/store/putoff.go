package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/base/redisreply"
)

//go:embed hand.lua
var handSource string

//go:embed putoff.lua
var putOffSource string

var putOffScript = redis.NewScript(handSource + acceptedSource + parkAs + putOffSource)

// A PutOff returns a job to its queue and updates its record in the same step.
type PutOff struct {
	Return
	// Deferral is how a limit has put it off; nil for none.
	Deferral *Deferral
	// Attempt is the visit's; nil for none.
	Attempt *Attempt
	// Park is the ParkName of what it waits for; "" for nothing but Return.After.
	Park string
}

// A Deferral is until when a limit has put a notification off, and by which scope and rule.
type Deferral struct {
	Until       time.Time
	Scope, Rule string
}

// An Attempt has failed for some targets, which are tried again.
type Attempt struct {
	Number int // of the attempts until now, from 1
	// Excused of them failed because a provider was in trouble.
	Excused  int
	Outcomes []TargetOutcome
	Error    string // of this one
}

// ErrUnnoted means that the record or the counts cannot be updated, for example because a key has
// another type. The job stays in hand.
var ErrUnnoted = errors.New("record of a notification")

// PutOff returns the job to its queue for later, or answers ErrNotInHand or ErrUnnoted.
func (r *Shard) PutOff(ctx context.Context, j *Job, p *PutOff) error {
	keys := append([]string{r.QueueKey(j.Queue, "t:"+j.ID)}, r.queueKeys(j.Queue, "active", "retry", "due")...)
	keys = append(keys, r.Key("id:"+j.ID), r.Key("counts"))
	keys = append(keys, r.queueKeys(j.Queue, "parked", "parked:")...)
	args := []any{j.ID, j.Hand, p.Left(time.Now()).Microseconds(), p.text(), p.Failed, p.Park}
	reply, err := putOffScript.Run(ctx, r.client, keys, append(args, p.noted()...)...).Result()
	switch {
	case err != nil:
		return fmt.Errorf("put the job off: %w", err)
	case reply == int64(0):
		return ErrNotInHand
	}
	if why, refused := reply.(string); refused {
		if err := replyError(why); !redisreply.OfItsKeys(err) { // it may pass
			return fmt.Errorf("put the job off: %w", err)
		}
		return fmt.Errorf("%w: %s", ErrUnnoted, why)
	}
	return nil
}

// Holds reports whether the job is in its hand still, and its notification has not ended.
func (r *Shard) Holds(ctx context.Context, j *Job) (bool, error) {
	pipe := r.client.Pipeline()
	hand, state := pipe.HGet(ctx, r.QueueKey(j.Queue, "t:"+j.ID), "worker"), pipe.HGet(ctx, r.Key("id:"+j.ID), "state")
	if _, err := pipeline.Exec(ctx, pipe); err != nil && !errors.Is(err, redis.Nil) {
		return false, fmt.Errorf("look whose the job is: %w", err)
	}
	return hand.Val() == j.Hand && !State(state.Val()).Ended(), nil
}

// noted returns the arguments of putoff.lua for the record.
func (p *PutOff) noted() []any {
	until, scope, rule := "", "", ""
	if d := p.Deferral; d != nil {
		until, scope, rule = strconv.FormatInt(d.Until.UnixMilli(), 10), d.Scope, d.Rule
	}
	number, words, ids, problem, excused := "", "", "", "", 0
	if a := p.Attempt; a != nil {
		words, ids = encodeOutcomes(a.Outcomes)
		number, problem, excused = strconv.Itoa(a.Number), a.Error, a.Excused
	}
	return []any{until, scope, rule, number, words, ids, problem, excused}
}
