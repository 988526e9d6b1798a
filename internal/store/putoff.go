package store

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed hand.lua
var handSource string

//go:embed putoff.lua
var putOffSource string

var putOffScript = redis.NewScript(handSource + putOffSource)

// PutOff returns the job to its queue for later, or answers ErrNotInHand.
func (r *Shard) PutOff(ctx context.Context, j *Job, back *Return) error {
	task := r.QueueKey(j.Queue, "t:"+j.ID)
	keys := append([]string{task}, r.queueKeys(j.Queue, "active", "retry", "due")...)
	done, err := putOffScript.Run(ctx, r.client, keys, j.ID, j.Hand, back.Left(time.Now()).Microseconds(), back.text(), back.Failed).Int()
	switch {
	case err != nil:
		return fmt.Errorf("put the job off: %w", err)
	case done == 0:
		return ErrNotInHand
	}
	return nil
}
