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

// A preview tells what a change of limits would do before it is made: who of those that
// wait would leave sooner, who later, and how many at once. It writes nothing.
//
// What it foretells is what the workers' package reschedule does after such a change: it
// asks with the same request, by the rules that the limiter's script is held to. For one
// user that is exact, as long as nothing comes, leaves or is sent meanwhile. For a category,
// an app or everyone it looks at as many users as it can within PreviewBudget, and says of
// how many. Limits that are lowered for everyone move those who wait when the first of a
// user's comes.
const (
	// PreviewBudget is for how long it looks at users, less where its deadline comes before.
	PreviewBudget = 2 * time.Second
	// maxUsers bounds the users that it knows of.
	maxUsers = 100_000
	// readers is how many users are looked at at once. Each reader rests as long as
	// Redis took.
	readers = 4
	// atOnce is within what after the change somebody leaves at once, of which up to a
	// second is for being woken.
	atOnce = 2 * time.Second
)

// ErrPreviewBusy means that another preview of many users is being made.
var ErrPreviewBusy = errors.New("another preview of many users is being made")

// Lines are the limiter's: see throttle.Redis.
type Lines interface {
	DryRun(context.Context, []throttle.Request) (throttle.Plan, error)
	Waiting(ctx context.Context, f func(app, user string) error) error
}

// A Previewer makes previews. All but what is not exported is required.
type Previewer struct {
	// Limits are those in force.
	Limits *limits.Policies
	Lines  Lines
	// Apps are those of the configuration.
	Apps []string
	many sync.Mutex // one looks at many users at a time
}

// Looked is of how many so many were looked at.
type Looked struct {
	At int `json:"looked_at"`
	Of int `json:"of"`
	// More says that there may be more than Of.
	More bool `json:"more,omitempty"`
}

// All reports whether none was left out.
func (l Looked) All() bool { return l.At == l.Of && !l.More }

// All reports whether everything that waits for these limits was looked at.
func (p *Preview) All() bool { return p.Users.All() && p.Notifications.All() }

// A Preview is what a change at a level would do. For a quota it has the rates alone, and
// none where that is the configuration's: who waits for a quota has no slot.
type Preview struct {
	limits.Level
	// Before is in force at the level, and After would be.
	Before limits.EffectivePolicy `json:"before"`
	After  limits.EffectivePolicy `json:"after"`
	// At is when it is made for, by the clock of the limits' Redis; zero when nobody waits.
	At time.Time `json:"at,omitzero"`
	// Users have notifications that wait for limits, and Notifications are these.
	Users         Looked `json:"users"`
	Notifications Looked `json:"notifications"`
	// Of those looked at, so many would leave sooner than now, or later. AtOnce are those
	// of Sooner who would leave within two seconds.
	Sooner int `json:"sooner"`
	Later  int `json:"later"`
	AtOnce int `json:"at_once"`
	// The last one leaves then, and the most in any one second are so many.
	LastBefore time.Time `json:"last_before,omitzero"`
	LastAfter  time.Time `json:"last_after,omitzero"`
	MostBefore int       `json:"most_in_a_second_before"`
	MostAfter  int       `json:"most_in_a_second_after"`
	// Moves are those of one user, by their slots.
	Moves []Move `json:"moves,omitempty"`
	// Warnings are what is odd about the override.
	Warnings []string `json:"warnings,omitempty"`
}

// A Move is when a notification leaves, and when it would.
type Move struct {
	ID       string    `json:"id"`
	App      string    `json:"app"`
	Category string    `json:"category,omitempty"`
	Before   time.Time `json:"before"`
	After    time.Time `json:"after"`
	// Free says that nothing would limit it any more.
	Free bool `json:"free,omitempty"`
}

// Of returns what would happen if the override took the place of what is in force at the
// level; nil if the one there were removed. The zero level is limits.default.
func (p *Previewer) Of(ctx context.Context, at limits.Level, override *limits.Override) (*Preview, error) {
	m := &making{
		Previewer: p, level: at, supposed: map[limits.Level]*limits.Override{at: override},
		preview: &Preview{Level: at, Before: p.Limits.InForce(at)},
	}
	m.preview.After = m.inForce(at)
	if at.Quota != "" { // of which the policies have overrides alone
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
		err = m.one(ctx)
	} else {
		err = m.everyone(ctx)
	}
	if err != nil {
		return nil, err
	}
	m.preview.MostBefore, m.preview.MostAfter = mostInASecond(m.before), mostInASecond(m.after)
	return m.preview, nil
}

// validatePreview reports all that is wrong with an override, or with what is to stand
// for limits.default.
func validatePreview(o *limits.Override, horizon time.Duration) error {
	if o.Level != (limits.Level{}) {
		return o.Validate(horizon)
	}
	stands := *o
	stands.App = "default" // for an app the same is valid
	return stands.Validate(horizon)
}

// making is a preview in the making.
type making struct {
	*Previewer
	level    limits.Level
	supposed map[limits.Level]*limits.Override

	mu            sync.Mutex
	preview       *Preview
	before, after []time.Time // when somebody leaves
}

func (m *making) inForce(at limits.Level) limits.EffectivePolicy {
	return m.Limits.InForceIf(at, m.supposed)
}

// one looks at the level's user, in the level's app or in all.
func (m *making) one(ctx context.Context) error {
	m.preview.Users = Looked{At: 1, Of: 1}
	for _, app := range m.Apps {
		if m.level.App != "" && m.level.App != app {
			continue
		}
		moves, err := m.look(ctx, app, m.level.User)
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

// look counts what would become of those of the user in the app who wait.
func (m *making) look(ctx context.Context, app, user string) ([]throttle.Move, error) {
	lines := []throttle.Request{control.LineRequest(app, user, throttle.Line{Category: m.level.Category}, m.inForce)}
	plan, err := m.Lines.DryRun(ctx, lines)
	if err == nil && len(plan.Others) > 0 { // they all wait for the general limits
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
	at := p.At // one for all
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

// mostInASecond is how many of the instants at most lie within one second.
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
