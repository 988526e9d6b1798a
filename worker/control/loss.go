package control

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
)

// A Loss counts data that Redis lost: Redis came back empty, from an old snapshot, or as a replica that
// lagged. The loss is recorded until an operator confirms it.
type Loss struct {
	At            time.Time `json:"at,omitzero"` // when a worker first noticed it, on Redis's clock
	Notifications int64     `json:"notifications"`
	Pauses        int64     `json:"pauses"`
	Overrides     int64     `json:"overrides"` // including mutes
}

// losses sums the losses that this process has noticed and not yet recorded in Redis.
type losses struct {
	self string // identifies this process, as several processes notice the same loss

	mu   sync.Mutex
	some bool
	Loss
}

func newLosses() *losses { return &losses{self: rand.Text()[:8]} }

// NoteLoss adds to the loss that RecordLosses records.
func (c *Control) NoteLoss(l Loss) {
	c.losses.mu.Lock()
	defer c.losses.mu.Unlock()
	c.losses.some = true
	c.losses.Notifications += l.Notifications
	c.losses.Pauses += l.Pauses
	c.losses.Overrides += l.Overrides
}

// lossKey is where the loss is recorded:
//
//	PREFIX:losses   hash: at, in Unix ms; and notifications:PROCESS, pauses:PROCESS and
//	                overrides:PROCESS, the counts by each process that noticed it
func lossKey(prefix string) string { return cmp.Or(prefix, "pushpace") + ":losses" }

// noteScript adds to a process's counts.
// KEYS  losses
// ARGV  process, and by pairs name, count
var noteScript = redis.NewScript(`
local now = redis.call('TIME')
redis.call('HSETNX', KEYS[1], 'at', now[1] * 1000 + math.floor(now[2] / 1000))
for i = 2, #ARGV, 2 do
  redis.call('HINCRBY', KEYS[1], ARGV[i] .. ':' .. ARGV[1], ARGV[i + 1])
end
return 1
`)

// recordLoss records the losses that NoteLoss has added since the last call. After an error the
// next call tries again; if only the reply was lost, the counts are then too high.
func (c *Control) recordLoss(ctx context.Context) error {
	l := c.losses
	l.mu.Lock()
	some, noted := l.some, l.Loss
	l.some, l.Loss = false, Loss{}
	l.mu.Unlock()
	if !some {
		return nil
	}
	err := noteScript.Run(ctx, c.client, []string{lossKey(c.records.Prefix())}, l.self, "notifications", noted.Notifications, "pauses", noted.Pauses, "overrides", noted.Overrides).Err()
	if err != nil {
		c.NoteLoss(noted)
	}
	return err
}

// ReadLoss returns the loss that is recorded under the prefix, nil for none.
func ReadLoss(ctx context.Context, client redis.UniversalClient, prefix string) (*Loss, error) {
	fields, err := client.HGetAll(ctx, lossKey(prefix)).Result()
	if err != nil {
		return nil, fmt.Errorf("read the recorded loss: %w", err)
	}
	return readLoss(fields), nil
}

// ConfirmLoss deletes the recorded loss and returns it, nil for none.
func (c *Control) ConfirmLoss(ctx context.Context) (*Loss, error) {
	pipe := c.client.TxPipeline()
	fields := pipe.HGetAll(ctx, lossKey(c.records.Prefix()))
	pipe.Del(ctx, lossKey(c.records.Prefix()))
	if _, err := pipeline.Exec(ctx, pipe); err != nil {
		return nil, fmt.Errorf("confirm the recorded loss: %w", err)
	}
	return readLoss(fields.Val()), nil
}

// readLoss takes the highest count of each kind over the processes, as all notice the same loss.
func readLoss(fields map[string]string) *Loss {
	if len(fields) == 0 {
		return nil
	}
	l := new(Loss)
	for field, text := range fields {
		n, _ := strconv.ParseInt(text, 10, 64)
		switch name, _, _ := strings.Cut(field, ":"); name {
		case "at":
			l.At = time.UnixMilli(n).UTC()
		case "notifications":
			l.Notifications = max(l.Notifications, n)
		case "pauses":
			l.Pauses = max(l.Pauses, n)
		case "overrides":
			l.Overrides = max(l.Overrides, n)
		}
	}
	return l
}
