package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
)

// A Queued is a waiting notification as its queue shows it.
type Queued struct {
	ID          string `json:"id"`
	App         string `json:"app"`
	User        string `json:"user"`
	Category    string `json:"category,omitempty"`
	CollapseKey string `json:"collapse_key,omitempty"`
	// For is the cause of the wait. Until is when the job returns or, for a limit, its slot; zero
	// without such a time.
	For   Cause     `json:"for"`
	Until time.Time `json:"until,omitzero"`
	// Scope and Rule name the limit that deferred it.
	Scope    string    `json:"scope,omitempty"`
	Rule     string    `json:"rule,omitempty"`
	Queue    string    `json:"queue"`
	Accepted time.Time `json:"accepted_at,omitzero"` // zero if the job is unreadable

	// pausedBy are the indexes of the pauses that match the notification, if it waits for a provider
	// or an operator's pause.
	pausedBy []int
}

// Ref returns the notification's reference: only the ID if the job is unreadable.
func (q Queued) Ref() push.Ref { return push.Ref{ID: q.ID, App: q.App, User: q.User} }

// A Selection selects notifications. An empty field matches any; the zero value selects all.
type Selection struct {
	App, User, Category, CollapseKey string
	// For is the cause of the wait; "" for any.
	For Cause
	// Apps are the visible apps; nil for all.
	Apps []string
	// Mutable selects only notifications that a mute without All ends.
	Mutable bool
}

// All reports whether it selects notifications regardless of their contents.
func (s Selection) All() bool {
	return s.App == "" && s.User == "" && s.Category == "" && s.CollapseKey == "" && s.Apps == nil && !s.Mutable
}

func (s Selection) matches(n *push.Notification) bool {
	if s.Apps != nil && !slices.Contains(s.Apps, n.App) {
		return false
	}
	for _, pair := range [][2]string{{s.App, n.App}, {s.User, n.User}, {s.Category, n.Category}, {s.CollapseKey, n.CollapseKey}} {
		if pair[0] != "" && pair[0] != pair[1] {
			return false
		}
	}
	return true
}

// A Page is a part of the waiting notifications.
type Page struct {
	Waiting []Queued `json:"waiting"`
	// Next is the cursor of the rest; "" at the end.
	Next string `json:"next,omitempty"`
	// Unread are the numbers of shards that did not answer and are skipped.
	Unread []int `json:"unread_shards,omitempty"`
	// CausesUnread means that snapshots or pauses could not be read: the causes are from the jobs
	// alone.
	CausesUnread bool `json:"causes_unread,omitempty"`
}

// ErrCausesUnread is the error for a list with CausesUnread.
var ErrCausesUnread = errors.New("the workers' snapshots or the pauses cannot be read: causes are from the jobs alone")

// Queued reads the next few hundred jobs. It returns the selected jobs, which may be none, in no
// order, and the cursor for the next call; "" is both the beginning and the end. A job that moves
// meanwhile may be missed or returned twice.
func (c *Inspector) Queued(ctx context.Context, s Selection, cursor string) (*Page, error) {
	at, position, err := readSpot(cursor)
	if err != nil {
		return nil, err
	}
	shards, err := c.records.All(ctx)
	if err != nil {
		return nil, err
	}
	if at >= len(shards)*len(store.Spots) {
		return nil, store.ErrCursor
	}
	page := &Page{Waiting: []Queued{}}
	near, cancel := store.WithShardTimeout(ctx, len(shards))
	defer cancel()
	in, err := c.liveState(near)
	if page.CausesUnread = len(shards) > 1 && redisreply.Of(err) != redisreply.None; page.CausesUnread {
		in = &liveState{}
	} else if err != nil {
		return nil, err
	}
	looked := 0
	err = c.records.Walk(ctx, at/len(store.Spots), func(ctx context.Context, shard *store.Shard) (enough bool, err error) {
		first := shard.Number * len(store.Spots)
		if at < first {
			at, position = first, 0
		}
		for at < first+len(store.Spots) && looked < store.PageSize {
			spot := store.Spots[at-first]
			var jobs []store.Queued
			if jobs, position, err = shard.Page(ctx, spot, position); err != nil {
				return false, err
			}
			some, err := c.classify(ctx, shard, spot, jobs, s, in)
			if err == nil {
				err = c.addLimits(ctx, shard, some)
			}
			if err != nil {
				return false, err
			}
			page.Waiting, looked = append(page.Waiting, some...), looked+len(jobs)
			if position == 0 {
				at++
			}
		}
		return looked >= store.PageSize, nil
	})
	if page.Unread, err = store.Unreachable(err); err != nil {
		return nil, err
	}
	if looked >= store.PageSize && at < len(shards)*len(store.Spots) {
		page.Next = fmt.Sprintf("%d-%d", at, position)
	}
	return page, nil
}

// readSpot reads a cursor.
func readSpot(cursor string) (at int, position uint64, err error) {
	if cursor == "" {
		return 0, 0, nil
	}
	left, right, _ := strings.Cut(cursor, "-")
	at, err1 := strconv.Atoi(left)
	position, err2 := strconv.ParseUint(right, 10, 64)
	if err := errors.Join(err1, err2); err != nil || at < 0 {
		return 0, 0, store.ErrCursor
	}
	return at, position, nil
}

// liveState reads the snapshots and pauses.
func (c *Inspector) liveState(ctx context.Context) (*liveState, error) {
	workers, err := control.ReadSnapshots(ctx, c.client, c.records.Prefix())
	if err != nil {
		return nil, err
	}
	pauses, err := c.PausesOf(ctx, workers)
	return &liveState{workers, pauses}, err
}

// classify returns the selected jobs. It returns an unreadable job, which a worker will set
// aside, if everything is selected.
func (c *Inspector) classify(ctx context.Context, shard *store.Shard, at store.Spot, jobs []store.Queued, s Selection, in *liveState) ([]Queued, error) {
	now := time.Now()
	var list []Queued
	seen := map[string]*returnedJob{} // jobs that a provider or a pause may block
	var parted []string               // jobs whose records may have outcomes for a platform
	for _, job := range jobs {
		q := Queued{ID: job.ID, Until: job.Due, Queue: at.Queue}
		var n *push.Notification
		if decoded, err := push.Decode([]byte(job.Payload)); err == nil {
			n = decoded.Notification
			q.App, q.User, q.Category, q.CollapseKey, q.Accepted = n.App, n.User, n.Category, n.CollapseKey, decoded.AcceptedAt
		}
		if n == nil && !s.All() || n != nil && (!s.matches(n) || s.Mutable && c.limits.Passes(control.LevelOf(n), n.Priority == push.Critical)) {
			continue
		}
		q.For = in.causeOf(now, at.State, job.Last, n, nil)
		if q.For == ForQuota && q.Until.IsZero() {
			q.Until = in.freeAgain(n, job.Last)
		}
		returned := job.Last.Why != "" && n != nil && len(servicesLeft(n, nil)) > 1 && (len(in.matchingPauses(n, nil)) > 0 || in.closedFor(n))
		if returned || q.For == ForProvider || q.For == ForPause {
			seen[q.ID] = &returnedJob{n, job.Last}
		}
		if returned {
			parted = append(parted, q.ID)
		}
		list = append(list, q)
	}
	records, err := shard.Briefs(ctx, parted)
	for i := range list {
		q, job := &list[i], seen[list[i].ID]
		if job == nil {
			continue
		}
		outcomes := records[q.ID].Outcomes
		if outcomes != nil {
			q.For = in.causeOf(now, at.State, job.last, job.n, outcomes)
		}
		if q.For == ForProvider || q.For == ForPause {
			q.pausedBy = in.matchingPauses(job.n, outcomes)
		}
	}
	if s.For != "" {
		list = slices.DeleteFunc(list, func(q Queued) bool { return q.For != s.For })
	}
	return list, err
}

// A returnedJob is a notification with the last return of its job.
type returnedJob struct {
	n    *push.Notification
	last store.Return
}

// addLimits adds limit and slot to deferred notifications.
func (c *Inspector) addLimits(ctx context.Context, shard *store.Shard, list []Queued) error {
	var ids []string
	for _, q := range list {
		if q.For.HasSlot() {
			ids = append(ids, q.ID)
		}
	}
	briefs, err := shard.Briefs(ctx, ids)
	if err != nil {
		return err
	}
	for i := range list {
		q := &list[i]
		if d := briefs[q.ID]; !d.Until.IsZero() && q.For.HasSlot() {
			q.Scope, q.Rule = d.Scope, d.Rule
			if d.Until.After(q.Until) {
				q.Until = d.Until
			}
		}
	}
	return nil
}
