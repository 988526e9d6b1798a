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

//go:embed claim.lua
var claimSource string

//go:embed putoff.lua
var putOffSource string

var putOffScript = redis.NewScript(claimSource + acceptedSource + parkAs + putOffSource)

// A PutOff returns a job to its queue and updates its record in the same step.
type PutOff struct {
	Return
	// Deferral is the deferral by a limit; nil for none.
	Deferral *Deferral
	// Attempt is the attempt that has just failed; nil for none.
	Attempt *Attempt
	// Park is the ParkName that has no room for the job; "" if it waits for Return.After only.
	Park string
}

// A Deferral is a notification's new slot, with the scope and rule that caused it.
type Deferral struct {
	Until       time.Time
	Scope, Rule string
}

// An Attempt is a send that failed for at least one target that is retried.
type Attempt struct {
	Number int // counted from 1
	// Excused counts the attempts until now that failed because of the provider's error state.
	Excused  int
	Outcomes []TargetOutcome
	Error    string // of this attempt
}

// ErrNotRecorded means that the record or the counts cannot be updated, for example because a key
// has the wrong type. The job stays claimed.
var ErrNotRecorded = errors.New("the record of the notification cannot be updated")

// PutOff returns the job to its queue for later. It fails with ErrNotClaimed or ErrNotRecorded.
func (r *Shard) PutOff(ctx context.Context, j *Job, p *PutOff) error {
	keys := append([]string{r.QueueKey(j.Queue, "t:"+j.ID)}, r.queueKeys(j.Queue, "active", "retry", "due")...)
	keys = append(keys, r.Key("id:"+j.ID), r.Key("counts"))
	keys = append(keys, r.queueKeys(j.Queue, "parked", "parked:")...)
	args := []any{j.ID, j.Claim, p.Left(time.Now()).Microseconds(), p.text(), p.Failed, p.Park}
	reply, err := putOffScript.Run(ctx, r.client, keys, append(args, p.recordArgs()...)...).Result()
	switch {
	case err != nil:
		return fmt.Errorf("put the job off: %w", err)
	case reply == int64(0):
		return ErrNotClaimed
	}
	if why, refused := reply.(string); refused {
		if err := replyError(why); !redisreply.OfItsKeys(err) { // the error may be temporary
			return fmt.Errorf("put the job off: %w", err)
		}
		return fmt.Errorf("%w: %s", ErrNotRecorded, why)
	}
	return nil
}

// Holds reports whether the job is still in its claim and its notification has not ended.
func (r *Shard) Holds(ctx context.Context, j *Job) (bool, error) {
	pipe := r.client.Pipeline()
	claim, state := pipe.HGet(ctx, r.QueueKey(j.Queue, "t:"+j.ID), "worker"), pipe.HGet(ctx, r.Key("id:"+j.ID), "state")
	if _, err := pipeline.Exec(ctx, pipe); err != nil && !errors.Is(err, redis.Nil) {
		return false, fmt.Errorf("read the job's claim: %w", err)
	}
	return claim.Val() == j.Claim && !State(state.Val()).Ended(), nil
}

// recordArgs returns the arguments of putoff.lua for the record.
func (p *PutOff) recordArgs() []any {
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
