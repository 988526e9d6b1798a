package reschedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/clock"
)

// A scanLock lets one worker at a time scan all waiting users, and records the start of the scan for the
// other workers. If the lock expires while its holder is suspended, a second scan repeats the work and
// does no harm.
//
//	PREFIX:{limits}:pass         string: a scan runs; expires after lockLives without renewal
//	PREFIX:{limits}:pass:LEVEL   string: start of the last scan, in Unix ms; expires after an hour
type scanLock struct {
	client redis.UniversalClient
	key    string
}

func newScanLock(client redis.UniversalClient, prefix string) scanLock {
	return scanLock{client, cmp.Or(prefix, "pushpace") + ":{limits}:pass"}
}

const (
	// lockLives is the TTL of the lock. Its holder renews it every third of that: two renewals
	// may be lost.
	lockLives = 10 * time.Second
	// scanKept is how long the start of a scan is kept: longer than other workers wait for the
	// lock during consecutive scans. A worker that asks later scans once more.
	scanKept = time.Hour
)

// with waits for the lock, calls f, and frees the lock.
func (l scanLock) with(ctx context.Context, f func(context.Context) error) error {
	for {
		got, err := l.client.SetNX(ctx, l.key, "scanned", lockLives).Result()
		if err != nil {
			return fmt.Errorf("lock the scan: %w", err)
		}
		if got {
			break
		}
		if err := clock.Sleep(ctx, store.RetryDelay); err != nil {
			return err
		}
	}
	scanning, over := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { clock.Every(scanning, lockLives/3, func() { l.client.PExpire(scanning, l.key, lockLives) }) })
	err := f(ctx)
	over()
	renewing.Wait()
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), clock.LastTimeout)
	defer stop()
	l.client.Del(last, l.key) // if it fails, the lock expires after lockLives
	return err
}

// done reports whether the last scan for this level began after since.
func (l scanLock) done(ctx context.Context, of limits.Level, since time.Time) (bool, error) {
	text, err := l.client.Get(ctx, l.key+":"+of.Key()).Result()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the last scan: %w", err)
	}
	began, err := strconv.ParseInt(text, 10, 64)
	return err == nil && began > since.UnixMilli(), nil
}

// note records that a scan for this level, begun at began, is complete.
func (l scanLock) note(ctx context.Context, of limits.Level, began time.Time) error {
	if err := l.client.Set(ctx, l.key+":"+of.Key(), began.UnixMilli(), scanKept).Err(); err != nil {
		return fmt.Errorf("record the scan: %w", err)
	}
	return nil
}
