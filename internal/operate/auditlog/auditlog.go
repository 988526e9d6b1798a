// Package auditlog records operators' actions in Redis: the operator, the time, the action, its
// object, and how many things changed. Begin with Log. An entry holds no content of a notification,
// and no API or device token.
package auditlog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
)

// An Action is the kind of an action.
type Action string

// The actions.
const (
	SetLimit     Action = "limit_set"
	UnsetLimit   Action = "limit_unset"
	UndoLimit    Action = "limit_undo"
	ImportLimits Action = "limits_import"
	Mute         Action = "mute"
	Unmute       Action = "unmute"
	Pause        Action = "pause"
	Resume       Action = "resume"
	Cancel       Action = "cancel"
	Requeue      Action = "requeue"
	Purge        Action = "purge"
	ConfirmLoss  Action = "loss_confirm"
)

// Actions are all actions.
var Actions = []Action{SetLimit, UnsetLimit, UndoLimit, ImportLimits, Mute, Unmute, Pause, Resume, Cancel, Requeue, Purge, ConfirmLoss}

// An Entry is one action of an operator.
type Entry struct {
	// Cursor selects the entries before this one, and At is its time on Redis's clock. Both are
	// set by reading.
	Cursor string    `json:"cursor,omitempty"`
	At     time.Time `json:"at,omitzero"`
	By     string    `json:"by"` // the bearer's name
	Action Action    `json:"action"`
	// Level is the level of a limit; or, with Platform, a pause's selection; or, with Group, the app
	// and user of a withdrawal; or only the app of notifications.
	limits.Level
	Platform push.Platform `json:"platform,omitempty"`
	// Apps are the apps if there are several. An entry with neither App nor Apps concerns
	// every app, or its app is unknown.
	Apps []string `json:"apps,omitempty"`
	// Group is the field that selects the withdrawn notifications, and its value: "thread chat-17".
	Group string `json:"group,omitempty"`
	// ID is the ID of the notification or dead letter, if there was only one.
	ID string `json:"id,omitempty"`
	// Count is the number of overrides, pauses, notifications, dead letters or losses.
	Count int `json:"count"`
	// Reason is a pause's reason, and Until the end of a pause, a limit or a mute.
	Reason string    `json:"reason,omitempty"`
	Until  time.Time `json:"until,omitzero"`
	// Limit is the policy that was set, for a person; "" if none was set.
	Limit string `json:"limit,omitempty"`
}

// In sets the entry's apps. An app "" means an unknown app, or every app.
func (e *Entry) In(apps []string) {
	apps = slices.Compact(slices.Sorted(slices.Values(apps)))
	switch {
	case len(apps) == 0 || apps[0] == "":
	case len(apps) == 1:
		e.App = apps[0]
	default:
		e.Apps = apps
	}
}

const (
	// Kept is about how many entries are kept.
	Kept = 10_000
	// KeptFor is the time for which an entry is kept.
	KeptFor = 30 * 24 * time.Hour
	// page is the number of entries of one round trip.
	page = 500
)

// A Log is a stream in Redis. It is safe for concurrent use.
type Log struct {
	client redis.UniversalClient
	key    string
}

// New returns the log under the prefix, "pushpace" when it is empty.
func New(client redis.UniversalClient, prefix string) *Log {
	return &Log{client, cmp.Or(prefix, "pushpace") + ":actions"}
}

// Add writes an entry, and prunes the oldest ones.
func (l *Log) Add(ctx context.Context, e Entry) error {
	e.Cursor, e.At = "", time.Time{}
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	pipe := l.client.Pipeline()
	added := pipe.XAdd(ctx, &redis.XAddArgs{Stream: l.key, MaxLen: Kept, Approx: true, Values: []string{"entry", string(text)}})
	pipe.XTrimMinID(ctx, l.key, oldest(time.Now()))
	if _, err := pipeline.Exec(ctx, pipe); err != nil && added.Val() == "" {
		return fmt.Errorf("write the audit log: %w", err)
	}
	return nil
}

// ErrCursor means that a cursor is not the cursor of an entry.
var ErrCursor = errors.New("the cursor is not that of an entry")

// cursors matches the IDs of a stream's entries, which Redis accepts as the end of a range.
var cursors = regexp.MustCompile(`^[1-9][0-9]{0,14}-[0-9]{1,15}$`)

// Before calls f with the entries before a cursor, "" for all, newest first, until f returns
// false. It skips entries that it cannot read. Its error may be ErrCursor.
func (l *Log) Before(ctx context.Context, cursor string, f func(Entry) bool) error {
	if cursor != "" && !cursors.MatchString(cursor) {
		return ErrCursor
	}
	for {
		from := "+"
		if cursor != "" {
			from = "(" + cursor
		}
		some, err := l.client.XRevRangeN(ctx, l.key, from, oldest(time.Now()), page).Result()
		if err != nil {
			return fmt.Errorf("read the audit log: %w", err)
		}
		for _, one := range some {
			if e, ok := read(one); ok && !f(e) {
				return nil
			}
			cursor = one.ID
		}
		if len(some) < page {
			return nil
		}
	}
}

func read(m redis.XMessage) (e Entry, ok bool) {
	text, _ := m.Values["entry"].(string)
	err := json.Unmarshal([]byte(text), &e)
	e.Cursor, e.At = m.ID, instant(m.ID)
	return e, err == nil
}

// instant returns the time at which the entry with that ID was written.
func instant(id string) time.Time {
	text, _, _ := strings.Cut(id, "-")
	ms, _ := strconv.ParseInt(text, 10, 64)
	return time.UnixMilli(ms).UTC()
}

// oldest returns the lowest ID of an entry that is kept at that instant.
func oldest(now time.Time) string { return strconv.FormatInt(now.Add(-KeptFor).UnixMilli(), 10) }
