package limits

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// followEvery is how often the overrides' followers ask for changes. Twice
	// that, and a command's answer, is well within the second after which a change
	// is in force everywhere.
	followEvery = 250 * time.Millisecond
	changesPage = 1000
	// reloads bounds how often a reload that changes overtake is begun anew at once.
	reloads = 3
)

// Follow keeps the limits in step with the overrides until ctx ends: a change is
// in force within a second. It asks Redis four times a second, in one round trip
// each. onChange, if not nil, hears of the outcome each time: what has changed
// since the last time, or why that is not known. While Redis is away the limits
// stay as they are, and overrides end when their time has come.
func (o *Overrides) Follow(ctx context.Context, l *Policies, onChange func([]Change, error)) {
	var removing sync.WaitGroup // beside, so that changes are in force in time
	var under atomic.Bool
	defer removing.Wait()
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	for {
		changes, err := o.Refresh(ctx, l)
		if ctx.Err() != nil {
			return
		}
		if onChange != nil {
			onChange(changes, err)
		}
		if fields := l.ended(importBatch); err == nil && len(fields) > 0 && under.CompareAndSwap(false, true) {
			removing.Go(func() {
				defer under.Store(false)
				o.removeEnded(ctx, fields)
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Refresh brings the limits up to date once, and returns what has changed since
// the last time; nothing the first time. Limits follow one set of overrides.
func (o *Overrides) Refresh(ctx context.Context, l *Policies) ([]Change, error) {
	l.following.Lock()
	defer l.following.Unlock()
	if l.known == "" {
		_, err := o.reload(ctx, l)
		return nil, err
	}
	var all []Change
	for {
		changes, last, err := o.changesSince(ctx, l, l.known)
		if err == errTruncated {
			differences, err := o.reload(ctx, l)
			return append(all, differences...), err
		}
		if err != nil {
			return all, err
		}
		l.apply(changes)
		l.known = last
		all = append(all, changes...)
		if len(changes) < changesPage {
			return all, nil
		}
	}
}

// removeEnded removes overrides whose end has come, which all followers do and one is
// the first to: what cannot be removed now has stopped counting anyway.
func (o *Overrides) removeEnded(ctx context.Context, fields []string) {
	_, _ = o.remove(ctx, "ended", "pushpace", fields, func(o *Override, now time.Time) bool { return o.ended(now.UnixMilli()) })
}

// errTruncated means that the log does not lead from what is known to now.
var errTruncated = fmt.Errorf("the log of the overrides is truncated")

// changesScript returns Redis's clock in ms, and IDs and changes in turn: a MULTI of
// what only reads is refused while Redis is full.
//
// KEYS  the log
// ARGV  the first entry, how many at most
var changesScript = redis.NewScript(`
local clock = redis.call('TIME')
local reply = {string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000))}
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])) do
  reply[#reply + 1], reply[#reply + 2] = entry[1], entry[2][2]
end
return reply`)

// changesSince returns the changes after that entry of the log, and the entry up to which
// that is. The limits learn Redis's clock.
func (o *Overrides) changesSince(ctx context.Context, l *Policies, last string) ([]Change, string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	asked := time.Now()
	reply, err := changesScript.Run(ctx, o.client, []string{o.log}, last, changesPage+1).Slice()
	if err != nil {
		return nil, "", fmt.Errorf("follow the overrides: %w", err)
	}
	text, _ := reply[0].(string)
	clock, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, "", errForeign
	}
	// the reply was written between asking and now
	l.observe(clock, asked.Add(time.Since(asked)/2))
	entries := make([]redis.XMessage, (len(reply)-1)/2)
	for i := range entries {
		entries[i].ID, _ = reply[2*i+1].(string)
		entries[i].Values = map[string]any{entryField: reply[2*i+2]}
	}
	changes, err := readChanges(entries)
	if err != nil {
		return nil, "", err
	}
	version := int64(0)
	if last != "0-0" {
		if len(changes) == 0 || entries[0].ID != last {
			return nil, "", errTruncated
		}
		version, changes = changes[0].Version, changes[1:]
	}
	for i, c := range changes {
		if c.Version != version+int64(i)+1 {
			return nil, "", errTruncated
		}
	}
	if n := len(entries); n > 0 {
		last = entries[n-1].ID
	}
	return changes, last, nil
}

// reload reads all overrides, and returns in what they differ from those that
// were in force.
func (o *Overrides) reload(ctx context.Context, l *Policies) ([]Change, error) {
	for range reloads {
		head, err := o.client.XRevRangeN(ctx, o.log, "+", "-", 1).Result()
		if err != nil {
			return nil, fmt.Errorf("follow the overrides: %w", err)
		}
		from := "0-0"
		if len(head) > 0 {
			from = head[0].ID
		}
		all := map[[2]string]*Override{}
		err = o.List(ctx, func(override Override) bool {
			all[override.level()] = &override
			return true
		})
		if err != nil {
			return nil, err
		}
		// what has changed while they were listed; each entry says the whole of it
		changes, last, err := o.changesSince(ctx, l, from)
		if err == errTruncated {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, c := range changes {
			all[c.level()] = c.To
		}
		l.known = last
		return l.replace(all), nil
	}
	return nil, fmt.Errorf("follow the overrides: %w, and they change faster than they can be read", errTruncated)
}
