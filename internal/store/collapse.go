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

// claimLife bounds how long a claim lives whose notification's end is never recorded.
const claimLife = 90 * 24 * time.Hour

// A CollapseKey is one of a user's.
type CollapseKey struct{ App, User, Key string }

// A Collapsed is what a collapse key means for a notification.
type Collapsed struct {
	// Newer says that a newer notification has the key.
	Newer bool
	// Heir says that an older one has had it, which ends, and Elder is the ID of that one if its slot
	// is the notification's: it has ended, and was in no hand.
	Heir  bool
	Elder string
}

// Collapse claims the collapse key for the notification, if that is the newest with it by when they
// were accepted. It ends the older one that had the claim if that waits on its queue. One that a
// worker has in hand ends at its next visit. read reads a job's payload.
func (r *Shard) Collapse(ctx context.Context, key CollapseKey, id string, accepted time.Time, read func([]byte) (Contents, error)) (Collapsed, error) {
	keys := []string{r.collapseKey(key), r.Key("id:" + id)}
	elder, err := collapseScript.Run(ctx, r.client, keys, accepted.UnixMicro(), id, r.Key("id:"), claimLife.Milliseconds()).Text()
	switch {
	case errors.Is(err, redis.Nil):
		return Collapsed{Newer: true}, nil
	case err != nil:
		return Collapsed{}, fmt.Errorf("collapse key: %w", err)
	case elder == "":
		return Collapsed{}, nil
	}
	if _, err := r.Take(ctx, Ref{ID: elder}, How{State: Superseded, Read: read}); err != nil && !errors.Is(err, ErrEnded) {
		elder = "" // it ends at its next visit
	}
	return Collapsed{Heir: true, Elder: elder}, nil
}

func (r *Shard) collapseKey(key CollapseKey) string {
	user := url.QueryEscape(key.App) + "/" + url.QueryEscape(key.User)
	return r.Key("collapse:" + user + "/" + url.QueryEscape(key.Key))
}
