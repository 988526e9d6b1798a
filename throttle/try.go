package throttle

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Try runs each operation of the limiter on the keys of invented users, on each master of a
// Cluster. It returns the error of an operation that Redis rejects, for example for lack of a
// permission.
func (l *Redis) Try(ctx context.Context) error {
	masters, err := l.masters(ctx)
	if err != nil {
		return WrapStoreError("list the masters", err)
	}
	tried := map[string]bool{}
	for range 1000 * len(masters) {
		r := tryRequest()
		if node := l.Node(ctx, r); !tried[node] {
			tried[node] = true
			if err := l.try(ctx, r); err != nil {
				return err
			}
		}
		if len(tried) == len(masters) {
			return l.tryScan(ctx, masters)
		}
	}
	return fmt.Errorf("%w: only %d of %d masters have hash slots", ErrUnavailable, len(tried), len(masters))
}

// tryScan scans one page of each master's keys; Waiting scans all pages.
func (l *Redis) tryScan(ctx context.Context, masters []redis.UniversalClient) error {
	for _, master := range masters {
		if _, _, err := l.scan(ctx, master, 0, escapeGlob(l.prefix+":{")+"*"); err != nil {
			return err
		}
	}
	return nil
}

func tryRequest() Request {
	return Request{
		User: "try-" + rand.Text(), ID: "first", Horizon: time.Hour, MaxBooked: 1, Report: true,
		Scopes: []Scope{{General, Policy{MinGap: time.Minute}}, {"try", Policy{Rates: []Rate{{Count: 1, Period: time.Minute}}}}},
	}
}

// try makes each kind of call: for a notification that is granted, one that gets a slot, and one
// that waits without a slot.
func (l *Redis) try(ctx context.Context, r Request) error {
	ask := func(id string) (err error) {
		r.ID = id
		_, err = l.Acquire(ctx, r)
		return err
	}
	cancel := func(id string) (err error) {
		r.ID = id
		_, err = l.Cancel(ctx, r)
		return err
	}
	k := l.user(&r).keys
	defer l.client.Del(ctx, k.sent, k.catSent, k.slots, k.early(), k.lines()) // the keys also expire
	if _, err := l.claim(ctx, &r, l.user(&r), l.elapsed()); err != nil {      // Acquire would fall back to the script
		return fmt.Errorf("%w: a claim: %w", ErrUnavailable, err)
	}
	for _, id := range []string{"second", "third"} {
		if err := ask(id); err != nil {
			return err
		}
	}
	r.ID = "fourth"
	_, err1 := l.Timeline(ctx, r)
	_, err2 := l.Replan(ctx, []Request{r})
	err3 := l.ClearEarly(ctx, r, []Booking{{ID: "second", member: "second"}})
	return errors.Join(err1, err2, err3, cancel("first"), cancel("second"))
}
