package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed collapse.lua
var collapseSource string

var collapseScript = redis.NewScript(collapseSource)

// claimLife is the longest life of a claim if its notification's end is never recorded.
const claimLife = 90 * 24 * time.Hour

// A CollapseKey is a collapse key of one user.
type CollapseKey struct{ App, User, Key string }

// A Collapsed is the result of a notification's claim to its collapse key.
type Collapsed struct {
	// Newer is true if a newer notification has the key.
	Newer bool
	// Heir is true if this notification replaces an older one. Elder is the older one's ID if that
	// has already ended without being in flight: then its slot passes to this notification.
	Heir  bool
	Elder string
}

// Collapse claims the collapse key for the notification if it is the newest with that key by
// acceptance. If the previous holder waits on its queue, Collapse ends it. If a worker has claimed
// the holder's job, the holder ends when it is next processed. read reads a job's payload.
func (r *Shard) Collapse(ctx context.Context, key CollapseKey, id string, accepted time.Time, read func([]byte) (Contents, error)) (Collapsed, error) {
	keys := []string{r.collapseKey(key), r.Key("id:" + id)}
	elder, err := collapseScript.Run(ctx, r.client, keys, accepted.UnixMicro(), id, r.Key("id:"), claimLife.Milliseconds()).Text()
	switch {
	case errors.Is(err, redis.Nil):
		return Collapsed{Newer: true}, nil
	case err != nil:
		return Collapsed{}, fmt.Errorf("claim the collapse key: %w", err)
	case elder == "":
		return Collapsed{}, nil
	}
	if _, err := r.Take(ctx, Ref{ID: elder}, TakeOptions{State: Superseded, Read: read}); err != nil && !errors.Is(err, ErrEnded) {
		elder = "" // it ends when it is next processed
	}
	return Collapsed{Heir: true, Elder: elder}, nil
}

func (r *Shard) collapseKey(key CollapseKey) string {
	user := url.QueryEscape(key.App) + "/" + url.QueryEscape(key.User)
	return r.Key("collapse:" + user + "/" + url.QueryEscape(key.Key))
}
