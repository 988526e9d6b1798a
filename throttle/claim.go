package throttle

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
)

// A claim is an optimistic first check: one MULTI that reads the clock, whether any notification
// waits, and the n-th newest admission of each rule, and then adds the notification. The reads
// come first, so that the claim does not count itself. judge decides from the replies; the
// slots.lua call that follows a denied claim removes its entry.
//
// The score is a prediction of the server time of the execution, because the client sends the
// score before it can read the server's clock.
type claim struct {
	sent, stamp int64 // process time when it was sent, and its score, in µs
	now         int64 // server time of its execution
	received    int64 // process time of the reply
	waits       bool  // a notification waits
	entered     bool  // it was added to every set, and was in none before
	fresh       bool  // a set was empty before, and has no expiry
	pruned      bool  // it pruned the sets and set their expiry
	newest      int64 // the newest admission that was read; 0 for none
	free        int64 // the earliest time at which all rules allow an admission
	counts      []int // with Request.Report: admissions in each rate's window, with the claim's own
}

// A score may be at most stampEarly before the server's time, so that two admissions are at most
// stampEarly closer than allowed. It may be at most stampLate after the server's time: the user's
// next slots can be late by stampLate.
const (
	stampEarly = 1_000  // µs
	stampLate  = 10_000 // µs
)

// judge reports whether the claim is an admission.
func (c *claim) judge() bool {
	return c.entered && !c.waits && c.free <= min(c.stamp, c.now) && stampHolds(c.stamp, c.now)
}

// clockBack returns how far the server's clock was set back after the newest admission; 0 for less
// than a second.
func (c *claim) clockBack() time.Duration {
	if back := time.Duration(c.newest-c.now) * time.Microsecond; back >= time.Second {
		return back
	}
	return 0
}

func stampHolds(stamp, now int64) bool { return stamp >= now-stampEarly && stamp <= now+stampLate }

// errNotExecuted means that the transaction was not executed: the hash slot has moved to another node
// of the Cluster, or the server cannot run the transaction now.
var errNotExecuted = errors.New("the transaction was not executed")

// claim sends the request's claim; asked is the elapsed time of the call.
func (l *Redis) claim(ctx context.Context, r *Request, user *userState, asked int64) (*claim, error) {
	if err := ctx.Err(); err != nil {
		return nil, WrapStoreError(opAcquire, err)
	}
	n, err := l.node(ctx, user.keys.sent)
	if err != nil {
		return nil, WrapStoreError(opAcquire, err)
	}
	kept := user.kept.Load()
	c := &claim{pruned: kept == 0 || asked-kept > l.keep/4}
	exec := redis.NewSliceCmd(ctx, "exec")
	group := pipeline.Group{}
	group.Prepare = func() {
		c.sent = n.clock.elapsed()
		c.stamp = n.clock.predict(c.sent)
		group.Commands = append(l.commands(ctx, c, r, &user.keys, n.clock.seen.Load()), exec)
	}
	l.trips.Add(1)
	switch err := n.Do(&group); {
	case errors.Is(err, pipeline.ErrClosed):
		return nil, errNotExecuted
	case err != nil:
		return nil, WrapStoreError(opAcquire, err)
	}
	for _, cmd := range group.Commands { // go-redis sets the error of a rejected command on the first one
		switch err := cmd.Err(); {
		case err == nil:
		case redisError(err):
			return nil, fmt.Errorf("%w: %w", errNotExecuted, err)
		default:
			return nil, WrapStoreError(opAcquire, err)
		}
	}
	if err := c.read(r, exec.Val()); err != nil {
		return nil, err
	}
	c.received = n.clock.observe(c.sent, c.now)
	return c, nil
}

func redisError(err error) bool {
	var of redis.Error
	return errors.As(err, &of)
}

// commands returns the claim's commands except EXEC. seen is a time that the server's clock has
// reached: pruning must not depend on a prediction.
func (l *Redis) commands(ctx context.Context, c *claim, r *Request, k *keys, seen int64) []redis.Cmder {
	score := strconv.FormatInt(c.stamp, 10)
	all := []redis.Cmder{redis.NewCmd(ctx, "multi")}
	add := func(args ...any) { all = append(all, redis.NewCmd(ctx, args...)) }
	add("time")
	add("exists", k.slots)
	for i := range r.Scopes {
		for _, rule := range r.Scopes[i].Policy.appendRules(nil) {
			add("zrange", k.timeline(r.Scopes[i].Name), -rule.n, -rule.n, "withscores")
		}
	}
	for i := range r.Scopes {
		set := k.timeline(r.Scopes[i].Name)
		add("zadd", set, "nx", score, member(r.ID))
		if c.pruned {
			add("zremrangebyscore", set, "-inf", seen-l.keep)
			add("pexpire", set, (l.life()+999)/1000)
		}
	}
	for i := range r.Scopes {
		for _, rate := range r.Scopes[i].Policy.Rates {
			if r.Report {
				add("zcount", k.timeline(r.Scopes[i].Name), "("+strconv.FormatInt(c.stamp-rate.Period.Microseconds(), 10), "+inf")
			}
		}
	}
	return all
}

// read parses the replies of EXEC.
func (c *claim) read(r *Request, replies []any) error {
	var err error
	next := func() (reply any) {
		if len(replies) == 0 {
			err = errReply
			return nil
		}
		reply, replies = replies[0], replies[1:]
		if refused, is := reply.(error); is {
			err = WrapStoreError(opAcquire, refused)
		}
		return reply
	}
	number := func(reply any) int64 {
		n, fault := integer(reply)
		if fault != nil && err == nil {
			err = fault
		}
		return n
	}
	if clock := items(next()); len(clock) == 2 {
		c.now = time.Unix(number(clock[0]), 0).UnixMicro() + number(clock[1])
	} else {
		err = errReply
	}
	c.waits = number(next()) > 0
	for i := range r.Scopes {
		for j, rule := range r.Scopes[i].Policy.appendRules(nil) {
			at, some := scored(next())
			c.fresh = c.fresh || j == 0 && !some
			c.newest = max(c.newest, at)
			if some && rule.period > 0 {
				c.free = max(c.free, at+rule.period)
			}
		}
	}
	c.entered = true
	for range r.Scopes {
		c.entered = number(next()) == 1 && c.entered
		if c.pruned {
			next()
			next()
		}
	}
	for i := range r.Scopes {
		for range r.Scopes[i].Policy.Rates {
			if r.Report {
				c.counts = append(c.counts, int(number(next())))
			}
		}
	}
	return err
}

// scored parses a ZRANGE … WITHSCORES of at most one entry: a flat pair in RESP2, a pair inside
// an array in RESP3.
func scored(reply any) (at int64, some bool) {
	pair := items(reply)
	if len(pair) == 1 {
		pair = items(pair[0])
	}
	if len(pair) != 2 {
		return 0, false
	}
	switch score := pair[1].(type) {
	case float64:
		return int64(score), true
	case string:
		f, err := strconv.ParseFloat(score, 64)
		return int64(f), err == nil
	}
	return 0, false
}
