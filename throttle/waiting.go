package throttle

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
)

// scanPage is the number of keys per SCAN of Waiting, which occupies Redis for about a
// millisecond.
const scanPage = 1000

// Waiting calls f for each user with waiting notifications. It scans all keys, on each master of
// a Cluster, and leaves at least half of Redis's time to other clients. It may miss users that
// begin or stop waiting meanwhile, and may call f twice for a user. An error of f ends the scan.
func (l *Redis) Waiting(ctx context.Context, f func(app, user string) error) error {
	const suffix = "}:lines"
	pattern := escapeGlob(l.prefix+":{") + "*" + suffix
	masters, err := l.masters(ctx)
	if err != nil {
		return WrapStoreError("waiting", err)
	}
	for _, master := range masters {
		if err := l.waitingOn(ctx, master, pattern, suffix, f); err != nil {
			return err
		}
	}
	return nil
}

func (l *Redis) masters(ctx context.Context) ([]redis.UniversalClient, error) {
	cluster, ok := pipeline.OfCluster(l.client)
	if !ok {
		return []redis.UniversalClient{l.client}, nil
	}
	var mu sync.Mutex
	var all []redis.UniversalClient
	err := cluster.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, master)
		return nil
	})
	return all, err
}

func (l *Redis) waitingOn(ctx context.Context, master redis.UniversalClient, pattern, suffix string, f func(app, user string) error) error {
	for cursor := uint64(0); ; {
		began := time.Now()
		keys, next, err := l.scan(ctx, master, cursor, pattern)
		if err != nil {
			return err
		}
		took := time.Since(began)
		for _, key := range keys {
			app, user, ours := l.owner(key, suffix)
			if !ours {
				continue
			}
			if err := f(app, user); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
		rest := time.NewTimer(took)
		select {
		case <-rest.C:
		case <-ctx.Done():
			rest.Stop()
			return fmt.Errorf("throttle: %w", ctx.Err())
		}
	}
}

func (l *Redis) scan(ctx context.Context, master redis.UniversalClient, cursor uint64, pattern string) ([]string, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	keys, next, err := master.Scan(ctx, cursor, pattern, scanPage).Result()
	if err != nil {
		return nil, 0, WrapStoreError("waiting", err)
	}
	return keys, next, nil
}

// owner returns the app and the user of a key, and whether the key belongs to the limiter.
func (l *Redis) owner(key, suffix string) (app, user string, ours bool) {
	tag, found := strings.CutSuffix(strings.TrimPrefix(key, l.prefix+":{"), suffix)
	a, u, named := strings.Cut(tag, "/")
	if !named {
		a, u = "", tag
	}
	app, err1 := url.PathUnescape(a)
	user, err2 := url.PathUnescape(u)
	return app, user, found && err1 == nil && err2 == nil && u != "" && !strings.Contains(u, "/")
}

// escapeGlob escapes text for a glob pattern.
func escapeGlob(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`, "^", `\^`).Replace(text)
}
