package control

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Loss counts data that Redis lost: Redis came back empty, from an old snapshot, or as a replica that
// lagged. The loss is recorded until an operator confirms it.
type Loss struct {
	// At is when a worker noticed its latest part, on Redis's clock. It identifies the record: each
	// change gets a new one.
	At            time.Time `json:"at,omitzero"`
	Notifications int64     `json:"notifications"`
	Pauses        int64     `json:"pauses"`
	Overrides     int64     `json:"overrides"` // including mutes
}

var (
	// ErrNoLoss means that no loss of data is recorded.
	ErrNoLoss = errors.New("no loss of data is recorded")
	// ErrMoreLost means that the recorded loss is not the loss to confirm.
	ErrMoreLost = errors.New("other data was lost since: nothing was confirmed")
)

// losses are this process's losses that Redis has not recorded yet.
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

// lossKey is where the loss is recorded: see loss.lua.
func lossKey(prefix string) string { return cmp.Or(prefix, "pushpace") + ":losses" }

//go:embed loss.lua
var lossSource string

var lossScript = redis.NewScript(lossSource)

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
	err := lossScript.Run(ctx, c.client, []string{lossKey(c.records.Prefix())}, "note", l.self,
		"notifications", noted.Notifications, "pauses", noted.Pauses, "overrides", noted.Overrides).Err()
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

// ConfirmLoss confirms the recorded loss that has this At, and returns it. Its error may be
// ErrNoLoss or ErrMoreLost. A process that notices the same loss later records it again.
func (c *Control) ConfirmLoss(ctx context.Context, at time.Time) (*Loss, error) {
	reply, err := lossScript.Run(ctx, c.client, []string{lossKey(c.records.Prefix())}, "confirm", at.UnixMilli()).Slice()
	if err != nil {
		return nil, fmt.Errorf("confirm the recorded loss: %w", err)
	}
	if len(reply) == 0 {
		return nil, ErrNoLoss
	}
	if reply[0] != int64(1) {
		return nil, ErrMoreLost
	}
	fields := map[string]string{}
	for i := 1; i+1 < len(reply); i += 2 {
		name, _ := reply[i].(string)
		fields[name], _ = reply[i+1].(string)
	}
	return readLoss(fields), nil
}

// readLoss takes the highest count of each kind, as all workers notice the same loss. It returns nil if
// no loss is recorded.
func readLoss(fields map[string]string) *Loss {
	if fields["at"] == "" {
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
