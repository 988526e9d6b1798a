package limits

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/pipeline"
	"github.com/pushpace/pushpace/throttle"
)

const (
	// MaxOverrides bounds the overrides: every worker holds all of them.
	MaxOverrides = 100_000
	// LogKept is about how many entries of the audit log are kept.
	LogKept = 10_000
)

// Overrides keep the overrides in Redis, with a log of who changed what. Both keys
// share a hash tag, so that a change and its entry are one step:
//
//	PREFIX:{limits}:overrides   hash: Override as JSON, by USER/CATEGORY, escaped
//	PREFIX:{limits}:log         stream: Change as JSON; an entry's ID is VERSION-MS
//
// Safe for concurrent use.
type Overrides struct {
	client    redis.UniversalClient
	hash, log string // the keys
	horizon   time.Duration
}

// NewOverrides returns the overrides under the prefix, "pushpace" when it is
// empty. horizon is limits.horizon, the longest period; 0 means 24 h.
func NewOverrides(client redis.UniversalClient, prefix string, horizon time.Duration) *Overrides {
	if prefix == "" {
		prefix = "pushpace"
	}
	if horizon <= 0 {
		horizon = 24 * time.Hour
	}
	tag := prefix + ":{limits}:"
	return &Overrides{client, tag + "overrides", tag + "log", horizon}
}

// Horizon is the longest gap or period that an override may have.
func (o *Overrides) Horizon() time.Duration { return o.horizon }

var (
	// ErrPast means that an override would end before it begins.
	ErrPast = errors.New("until has passed")
	// ErrTooManyOverrides means that there are MaxOverrides already.
	ErrTooManyOverrides = fmt.Errorf("there are %d overrides already: remove some, or change the configuration", MaxOverrides)
)

// commandTimeout bounds each command of the overrides.
const commandTimeout = 2 * time.Second

// standing is what a change is decided on.
type standing struct {
	now   time.Time            // Redis's clock, in whole milliseconds
	count int64                // how many overrides there are
	by    map[string]*Override // those in question, by their fields; nil for none
}

// change changes some of the fields as decide says, and adds that to the log, in
// one step: it begins anew when somebody else has changed any meanwhile.
func (o *Overrides) change(ctx context.Context, fields []string, decide func(standing) ([]Change, error)) error {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	for {
		err := o.client.Watch(ctx, func(tx *redis.Tx) error {
			s, version, err := o.stands(ctx, tx.Pipeline(), fields)
			if err != nil {
				return err
			}
			changes, err := decide(s)
			if err != nil || len(changes) == 0 {
				return err
			}
			pipe := tx.TxPipeline()
			for i := range changes {
				changes[i].Version, changes[i].At = version+int64(i)+1, s.now
				if err := o.write(ctx, pipe, &changes[i]); err != nil {
					return err
				}
			}
			_, err = pipeline.Exec(ctx, pipe)
			return err
		}, o.hash, o.log)
		if !errors.Is(err, redis.TxFailedErr) {
			return err
		}
	}
}

// stands reads what a change is decided on, and the version of the last one.
func (o *Overrides) stands(ctx context.Context, pipe redis.Pipeliner, fields []string) (s standing, version int64, err error) {
	clock, count := pipe.Time(ctx), pipe.HLen(ctx, o.hash)
	values, last := pipe.HMGet(ctx, o.hash, fields...), pipe.XRevRangeN(ctx, o.log, "+", "-", 1)
	if _, err := pipeline.Exec(ctx, pipe); err != nil {
		return s, 0, err
	}
	s = standing{clock.Val().Truncate(time.Millisecond).UTC(), count.Val(), make(map[string]*Override, len(fields))}
	for i, value := range values.Val() {
		if text, ok := value.(string); ok {
			if s.by[fields[i]], err = read[Override](text); err != nil {
				s.by[fields[i]] = unread(fields[i]) // may be removed, and replaced
			}
		}
	}
	if entries := last.Val(); len(entries) > 0 {
		before, _, _ := strings.Cut(entries[0].ID, "-")
		version, err = strconv.ParseInt(before, 10, 64)
		return s, version, err
	}
	return s, 0, nil
}

// unread is an override of which nothing is known but its field.
func unread(field string) *Override {
	user, category, _ := strings.Cut(field, "/")
	user, _ = url.PathUnescape(user)
	category, _ = url.PathUnescape(category)
	return &Override{User: user, Category: category}
}

// write writes a change and its entry.
func (o *Overrides) write(ctx context.Context, pipe redis.Pipeliner, c *Change) error {
	entry, err := json.Marshal(c)
	if err != nil {
		return err
	}
	id := fmt.Sprintf("%d-%d", c.Version, c.At.UnixMilli())
	pipe.XAdd(ctx, &redis.XAddArgs{Stream: o.log, MaxLen: LogKept, Approx: true, ID: id, Values: []any{entryField, entry}})
	if c.To == nil {
		pipe.HDel(ctx, o.hash, field(c.User, c.Category))
		return nil
	}
	text, err := json.Marshal(c.To)
	pipe.HSet(ctx, o.hash, field(c.User, c.Category), text)
	return err
}

// Set validates the override and puts it in force on all workers, in the place
// of the one of its user and category. At is not used. One that stands there
// already changes nothing, and leaves no entry in the log.
func (o *Overrides) Set(ctx context.Context, override Override) error {
	if err := override.Validate(o.horizon); err != nil {
		return err
	}
	return o.setAll(ctx, []Override{override})
}

func (o *Overrides) setAll(ctx context.Context, all []Override) error {
	fields := make([]string, len(all))
	for i := range all {
		fields[i] = field(all[i].User, all[i].Category)
	}
	err := o.change(ctx, fields, func(s standing) (changes []Change, err error) {
		for i, to := range all {
			from := s.by[fields[i]]
			switch {
			case to.ended(s.now.UnixMilli()):
				return nil, fmt.Errorf("%s: %w", to.name(), ErrPast)
			case from != nil && from.sameAs(to):
				continue
			case from == nil:
				s.count++
			}
			if s.count > MaxOverrides {
				return nil, ErrTooManyOverrides
			}
			to.At, s.by[fields[i]] = s.now, &to
			changes = append(changes, Change{Why: "set", By: to.By, User: to.User, Category: to.Category, From: from, To: &to})
		}
		return changes, nil
	})
	if err != nil {
		return fmt.Errorf("set an override: %w", err)
	}
	return nil
}

// importBatch is how many overrides an import sets in one step.
const importBatch = 500

// Import sets all the overrides, once all of them are valid. An error after that
// leaves some of those before it set: setting them again changes nothing.
func (o *Overrides) Import(ctx context.Context, all []Override) error {
	for i := range all {
		if err := all[i].Validate(o.horizon); err != nil {
			return fmt.Errorf("%s: %w", all[i].name(), err)
		}
	}
	for batch := range slices.Chunk(all, importBatch) {
		if err := o.setAll(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// name says whose the override is, for an error.
func (o *Override) name() string {
	switch {
	case o.Category == "":
		return fmt.Sprintf("user %q", o.User)
	case o.User == "":
		return fmt.Sprintf("category %q", o.Category)
	}
	return fmt.Sprintf("user %q, category %q", o.User, o.Category)
}

// Unset removes the override of exactly that user and category, on behalf of by,
// and returns whether there was one.
func (o *Overrides) Unset(ctx context.Context, user, category, by string) (bool, error) {
	if by == "" || len(by) > MaxNameBytes || !isPlain(by) {
		return false, fmt.Errorf("by must be UTF-8 without control characters, of 1 to %d bytes", MaxNameBytes)
	}
	there, err := o.remove(ctx, "unset", by, []string{field(user, category)}, func(*Override, time.Time) bool { return true })
	if err != nil {
		return false, fmt.Errorf("remove an override: %w", err)
	}
	return there, nil
}

// remove removes those of the fields' overrides that are to go, and reports whether
// there were any.
func (o *Overrides) remove(ctx context.Context, why, by string, fields []string, goes func(*Override, time.Time) bool) (any bool, err error) {
	err = o.change(ctx, fields, func(s standing) (changes []Change, err error) {
		for _, from := range s.by {
			if goes(from, s.now) {
				changes = append(changes, Change{Why: why, By: by, User: from.User, Category: from.Category, From: from})
			}
		}
		any = len(changes) > 0
		return changes, nil
	})
	return any, err
}

// Get returns the override of exactly that user and category, or nil. One that
// has ended may still be returned for a moment.
func (o *Overrides) Get(ctx context.Context, user, category string) (*Override, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	value, err := o.client.HGet(ctx, o.hash, field(user, category)).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read an override: %w", err)
	}
	return read[Override](value)
}

const listPage = 1000

// List returns each override once, in no order, until f returns false.
func (o *Overrides) List(ctx context.Context, f func(Override) bool) error {
	seen := map[[2]string]bool{}
	for cursor := ""; ; {
		some, next, err := o.ListFrom(ctx, cursor, listPage)
		if err != nil {
			return err
		}
		for _, override := range some {
			if seen[override.level()] {
				continue
			}
			seen[override.level()] = true
			if !f(override) {
				return nil
			}
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

// ErrCursor means that a cursor is none that ListFrom has returned.
var ErrCursor = errors.New("the cursor is not known")

// ListFrom returns about as many overrides as limit says, in no order, and the
// cursor that the next call goes on from; "" begins, and is returned at the end.
// One that comes or goes meanwhile may be missed, and one may come twice.
func (o *Overrides) ListFrom(ctx context.Context, cursor string, limit int) (overrides []Override, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	at := uint64(0)
	if cursor != "" {
		if at, err = strconv.ParseUint(cursor, 10, 64); err != nil || at == 0 {
			return nil, "", ErrCursor
		}
	}
	for {
		var fields []string
		if fields, at, err = o.client.HScan(ctx, o.hash, at, "", int64(limit)).Result(); err != nil {
			return nil, "", fmt.Errorf("list the overrides: %w", err)
		}
		for i := 1; i < len(fields); i += 2 {
			override, err := read[Override](fields[i])
			if err != nil {
				return nil, "", err
			}
			overrides = append(overrides, *override)
		}
		if at == 0 {
			return overrides, "", nil
		}
		if len(overrides) >= limit {
			return overrides, strconv.FormatUint(at, 10), nil
		}
	}
}

// A Change is an entry of the log.
type Change struct {
	Version int64     `json:"version"`
	At      time.Time `json:"at"` // on Redis's clock
	By      string    `json:"by"`
	// Why is set, unset, or ended: its end had come.
	Why      string    `json:"why"`
	User     string    `json:"user,omitempty"`
	Category string    `json:"category,omitempty"`
	From     *Override `json:"from,omitempty"` // nil: there was none
	To       *Override `json:"to,omitempty"`   // nil: there is none any more
}

// level is the user and category that the change is of.
func (c *Change) level() [2]string { return [2]string{c.User, c.Category} }

// Log returns the newest changes, the newest first, at most so many.
func (o *Overrides) Log(ctx context.Context, newest int) ([]Change, error) {
	return o.LogBefore(ctx, 0, newest)
}

// LogBefore returns the newest changes before a version, 0 for all, the newest
// first, at most so many.
func (o *Overrides) LogBefore(ctx context.Context, version int64, newest int) ([]Change, error) {
	from := "+"
	if version > 0 {
		from = strconv.FormatInt(version-1, 10)
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	entries, err := o.client.XRevRangeN(ctx, o.log, from, "-", int64(max(1, newest))).Result()
	if err != nil {
		return nil, fmt.Errorf("read the log of the limits: %w", err)
	}
	return readChanges(entries)
}

// field is the hash's field of an override: no escaped name has a slash.
func field(user, category string) string {
	return throttle.Escape(user) + "/" + throttle.Escape(category)
}

var errForeign = errors.New("an entry of the overrides is not one of this version")

// read reads an entry of the hash or of the log.
func read[T Override | Change](text string) (*T, error) {
	entry := new(T)
	if json.Unmarshal([]byte(text), entry) != nil {
		return nil, errForeign
	}
	return entry, nil
}

// entryField is the one field of the log's entries.
const entryField = "change"

func readChanges(entries []redis.XMessage) ([]Change, error) {
	changes := make([]Change, len(entries))
	for i, e := range entries {
		text, _ := e.Values[entryField].(string)
		c, err := read[Change](text)
		if err != nil {
			return nil, err
		}
		changes[i] = *c
	}
	return changes, nil
}
