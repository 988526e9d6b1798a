package limits

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/acknowledged"
	"github.com/pushpace/pushpace/internal/base/names"
	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/throttle"
)

const (
	// MaxOverrides bounds the overrides: each worker holds all of them, about 50 MB.
	MaxOverrides = 100_000
	// LogKept is the approximate length of the audit log, with about 300 bytes an entry. A
	// follower that lags by more entries, as after a large import, reloads all overrides.
	LogKept = 10_000
)

// Overrides stores the overrides in Redis, with an audit log. All keys share a hash tag, so that
// a change and its log entry are atomic:
//
//	PREFIX:{limits}:overrides   hash: by level, as app=shop&user=u1
//	PREFIX:{limits}:ends        sorted set: the levels of overrides with an end, by Unix ms
//	PREFIX:{limits}:log         stream: the changes, with consecutive versions
//
// Safe for concurrent use.
type Overrides struct {
	client  redis.UniversalClient
	keys    []string // hash, ends, log
	horizon time.Duration
}

// NewOverrides returns the overrides under the prefix; empty means "pushpace". horizon is
// limits.horizon, the longest period; 0 means 24 h.
func NewOverrides(client redis.UniversalClient, prefix string, horizon time.Duration) *Overrides {
	tag := cmp.Or(prefix, "pushpace") + ":{limits}:"
	return &Overrides{client, []string{tag + "overrides", tag + "ends", tag + "log"}, cmp.Or(horizon, 24*time.Hour)}
}

// Horizon returns the longest gap or period of an override.
func (o *Overrides) Horizon() time.Duration { return o.horizon }

var (
	// ErrPast means that the override's end is in the past.
	ErrPast = errors.New("until has passed")
	// ErrConflict means that the stored override is not the version that a change expects.
	ErrConflict = errors.New("the override at this level has changed meanwhile")
	// ErrTooManyOverrides means that MaxOverrides are stored.
	ErrTooManyOverrides = fmt.Errorf("there are %d overrides already: remove some, or change the configuration", MaxOverrides)
)

//go:embed overrides.lua
var overridesSource string

var overridesScript = acknowledged.Reader(redis.NewScript(overridesSource), "changes")

// commandTimeout bounds each command of the overrides.
var commandTimeout = 2 * time.Second

func (o *Overrides) run(ctx context.Context, args ...any) *redis.Cmd {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	return overridesScript.Run(ctx, o.client, o.keys, args...)
}

// Set validates the override and stores it in place of its level's; all workers then apply it. It
// ignores At. An override equal to the stored one changes nothing and adds no log entry. If the
// caller gives a version, the stored override must have that version (0: no override may be
// stored); otherwise Set returns ErrConflict.
func (o *Overrides) Set(ctx context.Context, override Override, over ...int64) error {
	if err := override.Validate(o.horizon); err != nil {
		return err
	}
	_, err := changed(o.run(ctx, override.change(over...)...))
	return err
}

// change returns the script's arguments for a valid override.
func (o *Override) change(over ...int64) []any {
	end := int64(0)
	if !o.Until.IsZero() {
		end = o.Until.UnixMilli()
	}
	return change(o.Level, o.By, o.setting(), end, over)
}

// change returns the script's arguments for a level's new setting, "" for none.
func change(at Level, by, setting string, end int64, over []int64) []any {
	args := []any{"change", LogKept, at.Key(), throttle.Escape(by), setting, end, MaxOverrides}
	for _, version := range over {
		args = append(args, version)
	}
	return args
}

// changed reports whether the script has changed anything.
func changed(cmd *redis.Cmd) (bool, error) {
	switch n, err := cmd.Int(); {
	case err != nil:
		return false, fmt.Errorf("change an override: %w", err)
	case n == -1:
		return false, ErrPast
	case n == -2:
		return false, ErrTooManyOverrides
	case n == -3:
		return false, ErrConflict
	default:
		return n == 1, nil
	}
}

// page is the number of overrides or changes per round trip, which blocks Redis for 1 to 2 ms;
// all 100,000 overrides take 200 round trips.
const page = 500

// Import validates all overrides and then sets them. If it cannot set an override, the overrides
// before it are set; a second import does not change these.
func (o *Overrides) Import(ctx context.Context, all []Override) error {
	for i := range all {
		if err := all[i].Validate(o.horizon); err != nil {
			return fmt.Errorf("%s: %w", all[i].Key(), err)
		}
	}
	for len(all) > 0 {
		batch := all[:min(page, len(all))]
		if err := o.setBatch(ctx, batch); err != nil {
			return err
		}
		all = all[len(batch):]
	}
	return nil
}

func (o *Overrides) setBatch(ctx context.Context, batch []Override) error {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	pipe := o.client.Pipeline()
	answers := make([]*redis.Cmd, len(batch))
	for i := range batch {
		args := batch[i].change()
		if i == 0 { // loads the script on the server
			answers[i] = pipe.Eval(ctx, overridesSource, o.keys, args...)
		} else {
			answers[i] = pipe.EvalSha(ctx, overridesScript.Hash(), o.keys, args...)
		}
	}
	_, failed := pipeline.Exec(ctx, pipe)
	for i, answer := range answers {
		if _, err := changed(answer); err != nil {
			return fmt.Errorf("%s: %w", batch[i].Key(), err)
		}
	}
	return failed
}

// Unset removes the override of exactly that level, and reports whether it existed. The log names
// the user by. A version has the same effect as in Set.
func (o *Overrides) Unset(ctx context.Context, level Level, by string, over ...int64) (bool, error) {
	if by == "" {
		return false, errNoUser
	}
	if problem := names.Fault(by, names.MaxBytes); problem != "" {
		return false, throttle.Faults{{Field: "by", Problem: problem}}
	}
	return changed(o.run(ctx, change(level, by, "", 0, over)...))
}

// Get returns the override of exactly that level, or nil. It may return an override that has just
// ended.
func (o *Overrides) Get(ctx context.Context, level Level) (*Override, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	name := level.Key()
	value, err := o.client.HGet(ctx, o.keys[0], name).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read an override: %w", err)
	}
	return readOverride(name, value)
}

// InForce returns the general policy in force at the level, the category's own, and the override
// of exactly that level (nil for none), all from the overrides now in Redis.
func (o *Overrides) InForce(ctx context.Context, l *Policies, at Level) (general, own EffectivePolicy, exactly *Override, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	all := Level{App: at.App, User: at.User}
	var fields []string
	for _, level := range append(at.precedence(), all.precedence()...) {
		fields = append(fields, level.Key())
	}
	pipe := o.client.Pipeline()
	clock, values := pipe.Time(ctx), pipe.HMGet(ctx, o.keys[0], fields...)
	if _, err := pipe.Exec(ctx); err != nil {
		return general, own, nil, fmt.Errorf("read the overrides: %w", err)
	}
	there := map[Level]*Override{}
	for i, value := range values.Val() {
		text, ok := value.(string)
		if !ok {
			continue
		}
		override, err := readOverride(fields[i], text)
		if err != nil {
			return general, own, nil, err
		}
		if !override.ended(clock.Val().UnixMilli()) {
			there[override.Level] = override
		}
	}
	b := l.base.Load()
	b = &base{general: b.general, configured: b.configured, overrides: there}
	return b.inForce(all), b.inForce(at), there[at], nil
}

// List calls f for each override once, in no order, until f returns false.
func (o *Overrides) List(ctx context.Context, f func(Override) bool) error {
	seen := map[Level]bool{}
	for cursor := uint64(0); ; {
		some, next, err := o.page(ctx, cursor, page)
		if err != nil {
			return err
		}
		for _, override := range some {
			if seen[override.Level] {
				continue
			}
			seen[override.Level] = true
			if !f(override) {
				return nil
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// ErrCursor means that ListFrom cannot have returned the cursor.
var ErrCursor = errors.New("the cursor is not known")

// ListFrom returns about limit overrides, in no order, and the cursor of the next call. The first
// call takes the cursor "", and the last returns it. An override that is set or unset meanwhile may
// be missed, and any override may be returned twice.
func (o *Overrides) ListFrom(ctx context.Context, cursor string, limit int) (overrides []Override, next string, err error) {
	at := uint64(0)
	if cursor != "" {
		if at, err = strconv.ParseUint(cursor, 10, 64); err != nil || at == 0 {
			return nil, "", ErrCursor
		}
	}
	for len(overrides) < limit {
		var some []Override
		if some, at, err = o.page(ctx, at, limit); err != nil {
			return nil, "", err
		}
		overrides = append(overrides, some...)
		if at == 0 {
			return overrides, "", nil
		}
	}
	return overrides, strconv.FormatUint(at, 10), nil
}

func (o *Overrides) page(ctx context.Context, cursor uint64, limit int) (some []Override, next uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	fields, next, err := o.client.HScan(ctx, o.keys[0], cursor, "", int64(limit)).Result()
	if err != nil {
		return nil, 0, fmt.Errorf("list the overrides: %w", err)
	}
	for i := 0; i+1 < len(fields); i += 2 {
		override, err := readOverride(fields[i], fields[i+1])
		if err != nil {
			return nil, 0, err
		}
		some = append(some, *override)
	}
	return some, next, nil
}

// A Change is an entry of the log.
type Change struct {
	Version int64     `json:"version"`
	At      time.Time `json:"at"` // on Redis's clock
	By      string    `json:"by"`
	// Why is set, unset, or ended (the override's end has come). Followers also see Lost.
	Why string `json:"why"`
	Level
	From *Override `json:"from,omitempty"` // nil for none before
	To   *Override `json:"to,omitempty"`   // nil for none after
}

// Lost is the Why of an override that Redis has lost before its end.
const Lost = "lost"

// Log returns the newest changes before a version (0 for all), at most newest, the newest first.
func (o *Overrides) Log(ctx context.Context, version int64, newest int) ([]Change, error) {
	from := "+"
	if version > 0 {
		from = strconv.FormatInt(version-1, 10)
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	entries, err := o.client.XRevRangeN(ctx, o.keys[2], from, "-", int64(max(1, newest))).Result()
	if err != nil {
		return nil, fmt.Errorf("read the log of the limits: %w", err)
	}
	changes := make([]Change, 0, len(entries))
	for _, e := range entries {
		c, err := readChange(e.ID, e.Values)
		if err != nil {
			return nil, err
		}
		changes = append(changes, c)
	}
	return changes, nil
}

// readOverride parses an entry of the hash.
func readOverride(name, value string) (*Override, error) {
	level, err := readLevel(name)
	if err != nil {
		return nil, err
	}
	parts := strings.SplitN(value, " ", 3)
	if len(parts) != 3 {
		return nil, errForeign
	}
	var kept form // fields of a newer version are ignored
	if err := json.Unmarshal([]byte(parts[2]), &kept); err != nil {
		return nil, errForeign
	}
	o := kept.override()
	o.Level = level
	if o.Version, o.At, err = readEntryID(parts[0]); err != nil {
		return nil, err
	}
	if o.By, err = url.PathUnescape(parts[1]); err != nil {
		return nil, errForeign
	}
	return &o, nil
}

// readEntryID parses VERSION-MS.
func readEntryID(id string) (version int64, at time.Time, err error) {
	v, ms, _ := strings.Cut(id, "-")
	version, err1 := strconv.ParseInt(v, 10, 64)
	millis, err2 := strconv.ParseInt(ms, 10, 64)
	if err1 != nil || err2 != nil {
		return 0, at, errForeign
	}
	return version, time.UnixMilli(millis).UTC(), nil
}

func readChange(id string, values map[string]any) (c Change, err error) {
	text := func(name string) string {
		value, _ := values[name].(string)
		return value
	}
	if c.Version, c.At, err = readEntryID(id); err != nil {
		return c, err
	}
	if c.Level, err = readLevel(text("field")); err != nil {
		return c, err
	}
	if c.By, err = url.PathUnescape(text("by")); err != nil {
		return c, errForeign
	}
	c.Why = text("why")
	for _, side := range []struct {
		value string
		to    **Override
	}{{text("from"), &c.From}, {text("to"), &c.To}} {
		if side.value == "" {
			continue
		}
		if *side.to, err = readOverride(text("field"), side.value); err != nil {
			return c, err
		}
	}
	return c, nil
}
