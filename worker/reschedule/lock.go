package reschedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/worker/clock"
)

// A scanLock has one worker at a time scan all who wait, and tells the
// others from when on that was done:
//
//	PREFIX:{limits}:pass         string: who scans, for as long as it says so
//	PREFIX:{limits}:pass:SCOPE   string: when the last one began, in Unix ms, for an hour
type scanLock struct {
	client redis.UniversalClient
	key    string
}

func newScanLock(client redis.UniversalClient, prefix string) scanLock {
	return scanLock{client, cmp.Or(prefix, "pushpace") + ":{limits}:pass"}
}

const (
	// lockLives is after how long the lock of a worker that has gone is free.
	lockLives = 10 * time.Second
	lockRenew = 3 * time.Second
	lockAsk   = time.Second
	scanKept  = time.Hour
)

// KEYS  the lock
// ARGV  whose it is, for how many ms more; 0 to free it
var lockScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '0' then return redis.call('DEL', KEYS[1]) end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)

var errLost = errors.New("the lock of the scan is lost")

// with waits for the lock and calls f with it. f's context ends with the lock.
func (l scanLock) with(ctx context.Context, f func(context.Context) error) error {
	owner := uuid.NewString()
	for {
		got, err := l.client.SetNX(ctx, l.key, owner, lockLives).Result()
		if err != nil {
			return fmt.Errorf("lock the scan: %w", err)
		}
		if got {
			break
		}
		if err := clock.Sleep(ctx, lockAsk); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for clock.Sleep(ctx, lockRenew) == nil {
			if n, err := lockScript.Run(ctx, l.client, []string{l.key}, owner, lockLives.Milliseconds()).Int(); err != nil || n == 0 {
				cancel(errLost)
				return
			}
		}
	}()
	err := f(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, errLost) {
		err = cause
	}
	cancel(nil)
	<-done
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), lockAsk)
	defer stop()
	lockScript.Run(last, l.client, []string{l.key}, owner, 0) // or it is free after lockLives
	return err
}

// done reports whether the last scan of the scope began after that instant.
func (l scanLock) done(ctx context.Context, scope string, since time.Time) (bool, error) {
	text, err := l.client.Get(ctx, l.key+":"+scope).Result()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the last scan: %w", err)
	}
	began, err := strconv.ParseInt(text, 10, 64)
	return err == nil && began > since.UnixMilli(), nil
}

// note tells that a scan of the scope, begun then, is complete.
func (l scanLock) note(ctx context.Context, scope string, began time.Time) error {
	if err := l.client.Set(ctx, l.key+":"+scope, began.UnixMilli(), scanKept).Err(); err != nil {
		return fmt.Errorf("note the scan: %w", err)
	}
	return nil
}
