package limits

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// followEvery is the poll interval of followers. Twice the interval and the time of a command are
// well below the second within which a change applies everywhere.
const followEvery = 250 * time.Millisecond

// Follow applies the overrides to the limits until ctx ends, each change within a second. It
// polls Redis four times a second, with one command each. After each poll it calls onChange, if
// not nil, with the changes since the last poll, or an error. While Redis is unreachable the
// limits stay as they are, and overrides end on time.
func (o *Overrides) Follow(ctx context.Context, l *Policies, onChange func([]Change, error)) {
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
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Refresh polls once and returns the changes since the last poll; the first call returns none.
// Policies must follow only one Overrides.
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
		if len(changes) < page {
			return all, nil
		}
	}
}

// errTruncated means that the log has a gap after the last known entry.
var errTruncated = fmt.Errorf("the log of the overrides is truncated")

// changesSince returns the changes after the log entry last, and the last entry returned. It also
// updates the limits' estimate of Redis's clock.
func (o *Overrides) changesSince(ctx context.Context, l *Policies, last string) ([]Change, string, error) {
	asked := time.Now()
	reply, err := o.run(ctx, "changes", LogKept, last, page).Slice()
	if err != nil {
		return nil, "", fmt.Errorf("follow the overrides: %w", err)
	}
	if len(reply) != 3 {
		return nil, "", errForeign
	}
	text, _ := reply[0].(string)
	now, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, "", errForeign
	}
	// assume that Redis replied halfway between request and reply
	l.observe(now, asked.Add(time.Since(asked)/2))
	if truncated, _ := reply[1].(int64); truncated != 0 {
		return nil, "", errTruncated
	}
	entries, _ := reply[2].([]any)
	changes := make([]Change, 0, len(entries))
	for _, entry := range entries {
		before, _, err := readEntryID(last)
		if err != nil {
			return nil, "", err
		}
		c, id, err := readEntry(entry)
		if err != nil {
			return nil, "", err
		}
		if c.Version != before+1 {
			return nil, "", errTruncated
		}
		changes, last = append(changes, c), id
	}
	return changes, last, nil
}

// readEntry parses a stream entry from a script: ID, and alternating names and values.
func readEntry(entry any) (Change, string, error) {
	parts, _ := entry.([]any)
	if len(parts) != 2 {
		return Change{}, "", errForeign
	}
	id, _ := parts[0].(string)
	list, _ := parts[1].([]any)
	values := make(map[string]any, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		name, _ := list[i].(string)
		values[name] = list[i+1]
	}
	c, err := readChange(id, values)
	return c, id, err
}

// reload reads all overrides and returns the differences to the overrides in force. It fails if
// more overrides change meanwhile than the log keeps; the next Refresh then starts over.
func (o *Overrides) reload(ctx context.Context, l *Policies) ([]Change, error) {
	head, err := o.client.XRevRangeN(ctx, o.keys[2], "+", "-", 1).Result()
	if err != nil {
		return nil, fmt.Errorf("follow the overrides: %w", err)
	}
	from := "0-0"
	if len(head) > 0 {
		from = head[0].ID
	}
	all := map[Level]*Override{}
	err = o.List(ctx, func(override Override) bool {
		all[override.Level] = &override
		return true
	})
	if err != nil {
		return nil, err
	}
	// apply the changes that were made while List ran; each log entry has the whole override
	changes, last, err := o.changesSince(ctx, l, from)
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		all[c.Level] = c.To
	}
	lost := olderThan(from, l.known)
	l.known = last
	differences := l.replace(all)
	for i, c := range differences {
		if lost && c.To == nil && (c.From.Until.IsZero() || c.From.Until.After(l.Now())) {
			differences[i].Why = Lost
		}
	}
	return differences, nil
}

// olderThan reports whether the log entry id has a lower version than other. If the newest entry
// does, Redis has lost entries.
func olderThan(id, other string) bool {
	version, _, err := readEntryID(id)
	known, _, unknown := readEntryID(other)
	return err == nil && unknown == nil && version < known
}
