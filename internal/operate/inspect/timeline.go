package inspect

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/quiet"
)

// A Timeline is the state of one user of an app: the windows of the limits, the admissions, and
// the notifications that wait for a limit, with slot and rule.
type Timeline struct {
	App  string `json:"app"`
	User string `json:"user"`
	// Now and the other instants are by the clock of the limits' Redis.
	Now time.Time `json:"now"`
	// Scopes are the general limits, then the categories by name. A scope without limits has no
	// windows.
	Scopes []TimelineScope `json:"scopes"`
	// Bookings are the notifications that wait for a limit, queued or claimed, by slot. At most
	// throttle.MaxEntries of each scope are listed.
	Bookings []Waiter `json:"bookings"`
}

// A TimelineScope is one set of limits and its admissions.
type TimelineScope struct {
	Scope  string   `json:"scope"` // throttle.General, or a category
	Limits []Window `json:"limits"`
	// Exempt means that no limit applies to the category.
	Exempt bool `json:"exempt,omitempty"`
	// Source is the origin of the limits. Until is its end, if any.
	Source limits.Source `json:"source"`
	Until  time.Time     `json:"until,omitzero"`
	// Quiet are its quiet hours; nil for none.
	Quiet *Quiet `json:"quiet,omitempty"`
	// Muted means that the scope's notifications end muted, unless they pass mutes.
	Muted bool `json:"muted,omitempty"`
	// Admissions are the newest throttle.MaxEntries admissions, oldest first.
	Admissions []throttle.Entry `json:"admissions"`
}

// Quiet are quiet hours and their closed intervals in the next days.
type Quiet struct {
	Hours quiet.Hours `json:"hours"`
	Zone  string      `json:"time_zone"` // zone of the waiting notifications, if any
	// Closed are in order; the first may have begun.
	Closed []Closed `json:"closed"`
}

// Closed is an interval [From, Until).
type Closed struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
}

// End returns the end of the closed interval that contains at; zero if none does.
func (q *Quiet) End(at time.Time) time.Time {
	if q != nil {
		for _, c := range q.Closed {
			if !at.Before(c.From) && at.Before(c.Until) {
				return c.Until
			}
		}
	}
	return time.Time{}
}

func quietOf(t *throttle.Timeline) *Quiet {
	if len(t.Hours) == 0 {
		return nil
	}
	q := &Quiet{Hours: t.Hours, Zone: t.Zone, Closed: []Closed{}}
	for _, i := range t.Quiet {
		if until := time.Unix(i.Upto, 0).UTC(); until.After(t.Now) {
			q.Closed = append(q.Closed, Closed{time.Unix(i.From, 0).UTC(), until})
		}
	}
	return q
}

// A Window is the state of one limit, as in throttle.Window.
type Window struct {
	Rule    string        `json:"rule"` // "gap", or a rate
	Count   int           `json:"count"`
	Period  push.Duration `json:"period"`
	Used    int           `json:"used"`
	AtLeast bool          `json:"at_least,omitempty"` // Used is a lower bound
	// Free is when this limit alone admits the next notification: Now if it already admits one,
	// absent if the timeline does not reach back far enough.
	Free time.Time `json:"free_at,omitzero"`
}

// A Waiter is a notification that waits for a limit.
type Waiter struct {
	throttle.Booking
	// State and Job are as in Status, for the first TimelineStates. State is "" if the
	// notification of a slot is unknown.
	State push.State `json:"state,omitempty"`
	Job   string     `json:"job,omitempty"`
	// Critical means that the notification goes before other notifications. It is set along with
	// State.
	Critical bool `json:"critical,omitempty"`
}

// TimelineStates is the number of bookings, from the earliest on, that get a State. A timeline
// has up to 2,000 bookings, and a page shows fewer than TimelineStates.
const TimelineStates = 200

// Timeline returns the timeline of the app's user for the general limits and the categories;
// without categories, for all categories with their own limits. It makes a round trip for each
// scope, and two for the states, or three if notifications end meanwhile.
func (c *Inspector) Timeline(ctx context.Context, app, user string, categories []string) (*Timeline, error) {
	t := &Timeline{App: app, User: user, Scopes: []TimelineScope{}, Bookings: []Waiter{}}
	if len(categories) == 0 {
		categories = c.limits.Categories(app, user)
	}
	categories = slices.Sorted(slices.Values(categories))
	where := map[string]int{}
	for _, category := range append([]string{""}, slices.Compact(categories)...) {
		if err := c.addScope(ctx, t, where, category); err != nil {
			return nil, err
		}
	}
	if t.Now.IsZero() { // no limits, no timelines
		t.Now = time.Now().UTC()
	}
	slices.SortStableFunc(t.Bookings, func(a, b Waiter) int { return a.Slot.Compare(b.Slot) })
	at, err := c.records.Of(ctx, app, user)
	if err != nil {
		return nil, err
	}
	return t, c.addStates(ctx, at, t.Bookings[:min(len(t.Bookings), TimelineStates)])
}

// addStates adds state and job from records and queues.
func (c *Inspector) addStates(ctx context.Context, at *store.Shard, list []Waiter) error {
	ids := make([]string, len(list))
	for i, w := range list {
		ids[i] = w.ID
	}
	known, err := at.Briefs(ctx, ids)
	if err != nil {
		return err
	}
	queues := map[string]string{}
	for id, b := range known {
		if !b.State.Ended() {
			queues[id] = b.Queue
		}
	}
	jobs, err := at.States(ctx, queues)
	if err != nil {
		return err
	}
	var gone []string
	for id := range queues {
		if jobs[id] == "" {
			gone = append(gone, id)
		}
	}
	now, err := at.Briefs(ctx, gone) // these notifications may have ended meanwhile
	if err != nil {
		return err
	}
	maps.Copy(known, now)
	for i := range list {
		w := &list[i]
		b, there := known[w.ID]
		if !there {
			continue
		}
		w.State, w.Job, w.Critical = b.State, jobs[w.ID].Asynq(), b.Queue == push.Critical.Queue()
		if w.Rule == "" && b.Scope == w.Scope {
			w.Rule = b.Rule // the rule of its deferral
		}
	}
	return nil
}

// addScope adds the limits of the category, or the general ones for "".
func (c *Inspector) addScope(ctx context.Context, t *Timeline, at map[string]int, category string) error {
	name := cmp.Or(category, throttle.General)
	level := limits.Level{App: t.App, User: t.User, Category: category}
	effective := c.limits.InForce(level)
	one := TimelineScope{Scope: name, Limits: []Window{}, Exempt: effective.Policy.Exempt, Source: effective.Source, Until: effective.Until, Muted: c.limits.Muted(level, false), Admissions: []throttle.Entry{}}
	scopes := c.limits.Scopes(t.App, t.User, category)
	own := slices.IndexFunc(scopes, func(s throttle.Scope) bool { return s.Name == name })
	if own < 0 {
		t.Scopes = append(t.Scopes, one)
		return nil
	}
	// a category's notifications may wait for the general limits
	known, err := c.limiter.Timeline(ctx, throttle.Request{App: t.App, User: t.User, Scopes: scopes[:own+1]})
	if err != nil {
		return fmt.Errorf("the timeline of scope %s: %w", name, err)
	}
	if t.Now.IsZero() {
		t.Now = known.Now.UTC()
	}
	known.Now = t.Now // the same instant for all scopes
	for _, w := range known.Windows(scopes[own]) {
		one.Limits = append(one.Limits, Window{w.Rule, w.Count, push.Duration(w.Period), w.Used, w.AtLeast, w.Free.UTC()})
	}
	one.Quiet = quietOf(&known)
	for _, a := range known.Admissions[name] {
		a.At = a.At.UTC()
		one.Admissions = append(one.Admissions, a)
	}
	for _, b := range known.Bookings {
		b.Slot, b.After.At = b.Slot.UTC(), b.After.At.UTC()
		t.add(Waiter{Booking: b}, at)
	}
	t.Scopes = append(t.Scopes, one)
	return nil
}

// add adds a waiting notification once. If it waits in both its scopes, the scope that names a rule
// counts.
func (t *Timeline) add(w Waiter, at map[string]int) {
	i, known := at[w.ID]
	if !known {
		at[w.ID] = len(t.Bookings)
		t.Bookings = append(t.Bookings, w)
		return
	}
	b := &t.Bookings[i]
	w.Category = cmp.Or(w.Category, b.Category)
	if b.Category = w.Category; b.Rule == "" || w.Scope != throttle.General {
		*b = w
	}
}
