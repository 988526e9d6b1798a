package operate

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
)

// A preview shows the effect of a limit change before it is made: how many waiting notifications
// would leave sooner, how many later, and how many at once. It writes nothing.
//
// It predicts the result of the worker's rescheduling after such a change: it makes the same
// requests, by the rules of the limiter's script. For one user the prediction is exact if nothing
// is accepted, sent or ended meanwhile. For a category, an app or everyone it reads as many users
// as it can within PreviewBudget, and reports how many. Limits lowered for everyone move a user's
// waiting notifications only when the first of these is due.
const (
	// PreviewBudget bounds the time of reading users; an earlier deadline bounds it more.
	PreviewBudget = 2 * time.Second
	// maxUsers bounds the users that a preview lists.
	maxUsers = 100_000
	// readers is the number of users that are read in parallel. After each user, a reader rests for
	// the duration of the read.
	readers = 4
	// atOnce is how soon after the change a notification must leave to count as leaving at once.
	// Its wake-up takes up to a second of this.
	atOnce = 2 * time.Second
)

// ErrPreviewBusy means that another preview of many users is running.
var ErrPreviewBusy = errors.New("another preview of many users is running")

// Lines are the limiter's queues: see throttle.Redis.
type Lines interface {
	DryRun(context.Context, []throttle.Request) (throttle.Plan, error)
	Waiting(ctx context.Context, f func(app, user string) error) error
}

// A Previewer makes previews. All exported fields are required.
type Previewer struct {
	// Limits are the policies in force.
	Limits *limits.Policies
	Lines  Lines
	// Apps are the configured apps.
	Apps []string
	many sync.Mutex // held by the preview that reads many users
}

// Looked counts items: At were read, Of are known.
type Looked struct {
	At int `json:"looked_at"`
	Of int `json:"of"`
	// More means that there may be more than Of.
	More bool `json:"more,omitempty"`
}

// All reports whether all items were read.
func (l Looked) All() bool { return l.At == l.Of && !l.More }

// All reports whether everything that waits for these limits was read.
func (p *Preview) All() bool { return p.Users.All() && p.Notifications.All() }

// A Preview is the effect of a change at a level. For a quota it has only the rates, to which
// Operator.Preview adds the configured ones: notifications that wait for a quota have no scheduled
// time.
type Preview struct {
	limits.Level
	// Before is in force at the level, and After would be in force.
	Before limits.EffectivePolicy `json:"before"`
	After  limits.EffectivePolicy `json:"after"`
	// At is the time of the preview, by the clock of the limits' Redis; zero if nothing waits.
	At time.Time `json:"at,omitzero"`
	// Users counts the users with notifications that wait for limits, and Notifications counts
	// these notifications.
	Users         Looked `json:"users"`
	Notifications Looked `json:"notifications"`
	// Sooner and Later count the notifications read that would leave earlier or later than without
	// the change. AtOnce counts the part of Sooner that would leave within two seconds.
	Sooner int `json:"sooner"`
	Later  int `json:"later"`
	AtOnce int `json:"at_once"`
	// The last notification leaves at LastBefore, and after the change at LastAfter. MostBefore
	// and MostAfter are the numbers that leave in the busiest second.
	LastBefore time.Time `json:"last_before,omitzero"`
	LastAfter  time.Time `json:"last_after,omitzero"`
	MostBefore int       `json:"most_in_a_second_before"`
	MostAfter  int       `json:"most_in_a_second_after"`
	// Moves are one user's notifications, by their slots.
	Moves []Move `json:"moves,omitempty"`
	// Warnings are about the override.
	Warnings []string `json:"warnings,omitempty"`
}

// A Move is when a notification leaves, before and after the change.
type Move struct {
	ID       string    `json:"id"`
	App      string    `json:"app"`
	Category string    `json:"category,omitempty"`
	Before   time.Time `json:"before"`
	After    time.Time `json:"after"`
	// Free means that nothing would limit it any more.
	Free bool `json:"free,omitempty"`
}

// Of previews an override in place of the policy in force at the level; nil previews the removal
// of the present override. The zero level is limits.default.
func (p *Previewer) Of(ctx context.Context, at limits.Level, override *limits.Override) (*Preview, error) {
	m := &previewRun{
		Previewer: p, level: at, supposed: map[limits.Level]*limits.Override{at: override},
		preview: &Preview{Level: at, Before: p.Limits.InForce(at)},
	}
	m.preview.After = m.inForce(at)
	if at.Quota != "" { // the policies have only overrides of quotas
		for _, p := range []*limits.EffectivePolicy{&m.preview.Before, &m.preview.After} {
			if p.Source != limits.FromQuota {
				*p = limits.EffectivePolicy{Source: limits.FromConfiguration}
			}
		}
	}
	if override != nil {
		m.preview.Warnings = OverrideWarnings(*override, m.preview.Before.Policy, p.Limits.Configured())
	}
	if at.Quota != "" {
		return m.preview, nil
	}
	var err error
	if at.User != "" {
		err = m.readUser(ctx)
	} else {
		err = m.readUsers(ctx)
	}
	if err != nil {
		return nil, err
	}
	m.preview.MostBefore, m.preview.MostAfter = mostInASecond(m.before), mostInASecond(m.after)
	return m.preview, nil
}

// validatePreview returns all faults of an override, or of a replacement for limits.default.
func validatePreview(o *limits.Override, horizon time.Duration) error {
	if o.Level != (limits.Level{}) {
		return o.Validate(horizon)
	}
	stands := *o
	stands.App = "default" // the rules are those of an app's override
	return stands.Validate(horizon)
}

// previewRun is a preview under construction.
type previewRun struct {
	*Previewer
	level    limits.Level
	supposed map[limits.Level]*limits.Override

	mu            sync.Mutex
	preview       *Preview
	before, after []time.Time // when notifications leave
}

func (m *previewRun) inForce(at limits.Level) limits.EffectivePolicy {
	return m.Limits.InForceIf(at, m.supposed)
}

// readUser reads the level's user, in the level's app or in all apps.
func (m *previewRun) readUser(ctx context.Context) error {
	m.preview.Users = Looked{At: 1, Of: 1}
	for _, app := range m.Apps {
		if m.level.App != "" && m.level.App != app {
			continue
		}
		moves, err := m.readMoves(ctx, app, m.level.User)
		if err != nil {
			return err
		}
		for _, move := range moves {
			m.preview.Moves = append(m.preview.Moves, Move{move.ID, app, move.Category, move.From.UTC(), move.To.UTC(), move.Free})
		}
	}
	slices.SortStableFunc(m.preview.Moves, func(a, b Move) int { return a.Before.Compare(b.Before) })
	return nil
}

// readMoves counts the moves of the user's waiting notifications in the app, and returns them.
func (m *previewRun) readMoves(ctx context.Context, app, user string) ([]throttle.Move, error) {
	lines := []throttle.Request{control.LineRequest(app, user, throttle.Line{Category: m.level.Category}, m.inForce)}
	plan, err := m.Lines.DryRun(ctx, lines)
	if err == nil && len(plan.Others) > 0 { // all lines wait for the general limits
		lines = append(lines, control.LineRequests(app, user, plan.Others, m.inForce)...)
		plan, err = m.Lines.DryRun(ctx, lines)
	}
	if err != nil {
		return nil, err
	}
	moves := plan.Moves
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.preview
	if p.At.IsZero() && len(moves) > 0 {
		p.At = plan.Now.UTC()
	}
	at := p.At // the same instant for all users
	p.Notifications.At += len(moves)
	p.Notifications.Of += len(moves)
	soon := at.Add(atOnce)
	for _, move := range moves {
		switch {
		case move.To.Before(move.From):
			p.Sooner++
			if !move.To.After(soon) && move.From.After(soon) {
				p.AtOnce++
			}
		case move.To.After(move.From) && move.To.After(at):
			p.Later++
		}
		from, to := later(move.From, at), later(move.To, at)
		p.LastBefore, p.LastAfter = later(p.LastBefore, from.UTC()), later(p.LastAfter, to.UTC())
		m.before, m.after = append(m.before, from), append(m.after, to)
	}
	return moves, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// mostInASecond returns the largest number of instants within one second.
func mostInASecond(all []time.Time) (most int) {
	slices.SortFunc(all, time.Time.Compare)
	first := 0
	for i, at := range all {
		for !all[first].After(at.Add(-time.Second)) {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}
