package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed hand.lua
var handSource string

//go:embed putoff.lua
var putOffSource string

var putOffScript = redis.NewScript(handSource + acceptedSource + putOffSource)

// A PutOff returns a job to its queue and updates its record in the same step.
type PutOff struct {
	Return
	// Deferral is how a limit has put it off; nil for none.
	Deferral *Deferral
	// Attempt is the visit's; nil for none.
	Attempt *Attempt
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
	args := []any{j.ID, j.Hand, p.Left(time.Now()).Microseconds(), p.text(), p.Failed}
	reply, err := putOffScript.Run(ctx, r.client, keys, append(args, p.noted()...)...).Result()
	switch {
	case err != nil:
		return fmt.Errorf("put the job off: %w", err)
	case reply == int64(0):
		return ErrNotInHand
	}
	if why, refused := reply.(string); refused {
		return fmt.Errorf("%w: %s", ErrUnnoted, why)
	}
	return nil
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
