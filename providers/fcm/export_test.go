package fcm

import (
	"context"
	"time"
)

// NewWatching is New with the given interval between two checks of the file.
func NewWatching(ctx context.Context, cfg Config, interval time.Duration) (*Sender, error) {
	return newSender(ctx, cfg, interval)
}
