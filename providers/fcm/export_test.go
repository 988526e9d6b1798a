package fcm

import (
	"context"
	"time"
)

// NewWatching is New with another interval between the looks at the file.
func NewWatching(ctx context.Context, cfg Config, interval time.Duration) (*Sender, error) {
	return newSender(ctx, cfg, interval)
}
