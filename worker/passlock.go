package worker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/worker/clock"
)

// A passLock has one worker at a time look through all who wait, and tells the
// others from when on that was done:
//
//	PREFIX:{limits}:pass         string: who looks through, for as long as it says so
//	PREFIX:{limits}:pass:SCOPE   string: when the last one began, in Unix ms, for an hour
type passLock struct {
	client redis.UniversalClient
	key    string
}

func newPassLock(client redis.UniversalClient, prefix string) passLock {
	if prefix == "" {
		prefix = "pushpace"
	}
	return passLock{client, prefix + ":{limits}:pass"}
}

const (
	// passHeld is after how long the lock of a worker that has gone is free.
	passHeld  = 10 * time.Second
	passRenew = 3 * time.Second
	passAsk   = time.Second
	passKept  = time.Hour
)

// KEYS  the lock
// ARGV  whose it is, for how many ms more; 0 to free it
var passScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '0' then return redis.call('DEL', KEYS[1]) end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)

var errPassLost = errors.New("the lock of the pass is lost")

// hold waits for the lock and calls f with it. f's context ends with the lock.
func (l passLock) hold(ctx context.Context, f func(context.Context) error) error {
	owner := uuid.NewString()
	for {
		got, err := l.client.SetNX(ctx, l.key, owner, passHeld).Result()
		if err != nil {
			return fmt.Errorf("lock the pass: %w", err)
		}
		if got {
			break
		}
		if err := clock.Sleep(ctx, passAsk); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for clock.Sleep(ctx, passRenew) == nil {
			if n, err := passScript.Run(ctx, l.client, []string{l.key}, owner, passHeld.Milliseconds()).Int(); err != nil || n == 0 {
				cancel(errPassLost)
				return
			}
		}
	}()
	err := f(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, errPassLost) {
		err = cause
	}
	cancel(nil)
	<-done
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), passAsk)
	defer stop()
	passScript.Run(last, l.client, []string{l.key}, owner, 0) // or it is free after passHeld
	return err
}

// done reports whether the last pass over the scope began after that instant.
func (l passLock) done(ctx context.Context, scope string, since time.Time) (bool, error) {
	text, err := l.client.Get(ctx, l.key+":"+scope).Result()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the last pass: %w", err)
	}
	began, err := strconv.ParseInt(text, 10, 64)
	return err == nil && began > since.UnixMilli(), nil
}

// note tells that a pass over the scope, begun then, is complete.
func (l passLock) note(ctx context.Context, scope string, began time.Time) error {
	if err := l.client.Set(ctx, l.key+":"+scope, began.UnixMilli(), passKept).Err(); err != nil {
		return fmt.Errorf("note the pass: %w", err)
	}
	return nil
}
