package worker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/push"
)

// A Standing pause keeps notifications on the queue: an operator's Hold, a
// provider's Pause, or a provider in trouble. "" is any.
type Standing struct {
	Kind     StandingKind  `json:"kind"`
	App      string        `json:"app,omitempty"`
	Platform push.Platform `json:"platform,omitempty"`
	Category string        `json:"category,omitempty"`
	// Reason is the operator's words, or one of the provider's reasons, and Error
	// what the provider's last failure was, without token, key or body.
	Reason string `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"`
	// By is the operator who has begun it, and At when it began; zero when no
	// worker that is alive has seen that.
	By string    `json:"by,omitempty"`
	At time.Time `json:"at,omitzero"`
	// Until is when it ends, or of trouble when the provider is looked at next;
	// zero when it has no end.
	Until time.Time `json:"until,omitzero"`
	// Waiting is about how many notifications the workers have put back for it: for
	// a provider's.
	Waiting int `json:"waiting,omitempty"`
	// Workers is how many say so, when each of them does alone.
	Workers int `json:"workers,omitempty"`
}

// StandingKind is whose pause it is.
type StandingKind string

// The kinds.
const (
	ByOperator StandingKind = "operator"
	ByProvider StandingKind = "provider"
	ByTrouble  StandingKind = "trouble"
)

// Pause has all workers hold what the hold matches: see Holds.Begin.
func (c *Control) Pause(ctx context.Context, hold Hold) error { return c.holds.Begin(ctx, hold) }

// Resume ends what keeps the hold's notifications on the queue: the hold that
// matches the same, and, unless it is one of a category, the pauses and the
// trouble of the providers that it covers, which every worker tries again within
// a second. It answers what it has ended.
func (c *Control) Resume(ctx context.Context, hold Hold) ([]Standing, error) {
	list, err := c.Pauses(ctx)
	if err != nil {
		return nil, err
	}
	var ended []Standing
	var routes []string
	for _, s := range list {
		switch {
		case s.Kind == ByOperator:
			if s.App == hold.App && s.Platform == hold.Platform && s.Category == hold.Category {
				ended = append(ended, s)
			}
		case hold.Category == "" && (hold.App == "" || hold.App == s.App) && (hold.Platform == "" || hold.Platform == s.Platform):
			ended = append(ended, s)
			routes = append(routes, s.route())
		}
	}
	held, err := c.holds.End(ctx, hold)
	if err != nil {
		return nil, err
	}
	if held && !slices.ContainsFunc(ended, func(s Standing) bool { return s.Kind == ByOperator }) { // begun just now
		ended = append(ended, Standing{Kind: ByOperator, App: hold.App, Platform: hold.Platform, Category: hold.Category})
	}
	if len(routes) == 0 {
		return ended, nil
	}
	return ended, c.pauses.resume(ctx, hold.By, routes)
}

// Pauses answers the pauses in force, the operators' first, then the providers',
// then the trouble that no pause covers.
func (c *Control) Pauses(ctx context.Context) ([]Standing, error) {
	workers, err := ReadSnapshots(ctx, c.pauses.client, c.records.Prefix())
	if err != nil {
		return nil, err
	}
	return c.PausesSeen(ctx, workers)
}

// PausesSeen is Pauses by what these workers tell.
func (c *Control) PausesSeen(ctx context.Context, workers []Snapshot) ([]Standing, error) {
	all, err := c.pauses.read(ctx)
	if err != nil {
		return nil, err
	}
	return append(ofOperators(all.holds), ofProviders(all.pauses, workers)...), nil
}

// operators answers the operators' pauses in force.
func (c *Control) operators(ctx context.Context) ([]Standing, error) {
	all, err := c.pauses.read(ctx)
	return ofOperators(all.holds), err
}

func ofOperators(holds []Hold) []Standing {
	list := make([]Standing, 0, len(holds))
	for _, h := range holds {
		list = append(list, Standing{Kind: ByOperator, App: h.App, Platform: h.Platform, Category: h.Category, Reason: h.Reason, By: h.By, At: h.At, Until: h.Until})
	}
	return list
}

// ofProviders joins the pauses that are shared with what each worker tells, by
// app and platform. What a worker has seen says more than that it is paused.
func ofProviders(pauses []Pause, workers []Snapshot) []Standing {
	type key struct {
		kind  StandingKind
		route string
	}
	found := map[key]*Standing{}
	join := func(s Standing) {
		old := found[key{s.Kind, s.route()}]
		if old == nil {
			found[key{s.Kind, s.route()}] = &s
			return
		}
		old.join(&s)
	}
	used := map[string]map[string]bool{} // credentials, by route
	for _, w := range workers {
		for _, r := range w.Routes {
			s := Standing{Kind: ByTrouble, App: r.App, Platform: r.Platform, Reason: string(r.Trouble.Reason), Error: r.Trouble.Error,
				At: r.Trouble.Since, Until: r.Trouble.Next, Waiting: r.Held + r.Queued}
			if used[s.route()] == nil {
				used[s.route()] = map[string]bool{}
			}
			used[s.route()][r.Credential] = true
			if r.Pause != "" {
				s.Kind, s.Reason, s.Until = ByProvider, string(r.Pause), r.Until
			}
			if r.Alone || s.Kind == ByTrouble {
				s.Workers = 1
			}
			if s.Reason != "" {
				join(s)
			}
		}
	}
	for _, p := range pauses {
		route := p.route()
		if p.claim != "" || p.credential != "" && used[route] != nil && !used[route][p.credential] {
			continue // one worker alone says so, or the credentials are others by now
		}
		join(Standing{Kind: ByProvider, App: p.App, Platform: p.Platform, Reason: string(p.Reason), Error: p.Error, Until: p.Until.UTC()})
	}
	list := make([]Standing, 0, len(found))
	for _, s := range found {
		if s.Kind == ByTrouble && found[key{ByProvider, s.route()}] != nil {
			found[key{ByProvider, s.route()}].Waiting += s.Waiting
			continue
		}
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b Standing) int {
		return cmp.Or(strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.route(), b.route()))
	})
	return list
}

func (s *Standing) route() string { return s.App + "/" + string(s.Platform) }

// join takes in what another worker tells of the same: the earliest beginning,
// the latest end of a pause, the earliest look at what is in trouble.
func (s *Standing) join(o *Standing) {
	if s.At.IsZero() || !o.At.IsZero() && o.At.Before(s.At) {
		s.At = o.At
	}
	switch {
	case s.Kind == ByTrouble && o.Until.Before(s.Until):
		s.Until = o.Until
	case s.Kind == ByProvider && !s.Until.IsZero() && (o.Until.IsZero() || o.Until.After(s.Until)):
		s.Until, s.Reason, s.Error = o.Until, o.Reason, cmp.Or(o.Error, s.Error)
	}
	s.Error = cmp.Or(s.Error, o.Error)
	s.Waiting += o.Waiting
	if s.Workers > 0 && o.Workers > 0 {
		s.Workers += o.Workers
	} else {
		s.Workers = 0 // all share it
	}
}

// String says what waits, for what and until when: "fcm of shop, in trouble
// since 13:28:54: FCM answered 503 UNAVAILABLE; next look 13:29:27".
func (s Standing) String() string {
	const clock = time.TimeOnly
	b := new(strings.Builder)
	switch {
	case s.Platform != "" && s.App != "":
		fmt.Fprintf(b, "%s of %s", s.Platform, s.App)
	case s.Platform != "" || s.App != "":
		b.WriteString(cmp.Or(string(s.Platform), s.App))
	}
	if s.Category != "" {
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString("category " + s.Category)
	}
	if b.Len() == 0 {
		b.WriteString("everything")
	}
	cause := cmp.Or(s.Error, s.Reason)
	switch s.Kind {
	case ByOperator:
		fmt.Fprintf(b, ", paused by %s at %s", cmp.Or(s.By, "an operator"), s.At.UTC().Format(time.RFC3339))
	case ByProvider:
		b.WriteString(", paused")
	case ByTrouble:
		b.WriteString(", in trouble")
	}
	if s.Kind != ByOperator && !s.At.IsZero() {
		b.WriteString(" since " + s.At.UTC().Format(clock))
	}
	if cause != "" {
		b.WriteString(": " + cause)
	}
	switch {
	case s.Until.IsZero():
	case s.Kind == ByTrouble:
		b.WriteString("; next look " + s.Until.UTC().Format(clock))
	default:
		b.WriteString("; until " + s.Until.UTC().Format(time.RFC3339))
	}
	return b.String()
}

// matches reports whether the pause keeps any of the notification's targets
// that are left from being sent to.
func (s *Standing) matches(n *push.Notification, outcomes []push.TargetOutcome) bool {
	if s.App != "" && s.App != n.App || s.Category != "" && s.Category != n.Category {
		return false
	}
	for i, t := range n.Targets {
		if i < len(outcomes) && !outcomes[i].Open() {
			continue
		}
		if s.Platform == "" || s.Platform == t.Platform {
			return true
		}
	}
	return false
}
