package control

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/pause"
)

// Pause has all workers keep what the pause matches: see pause.Store.Begin.
func (c *Control) Pause(ctx context.Context, p *pause.Pause) error { return c.pauses.Begin(ctx, p) }

// Resume ends what keeps on the queue what the pause matches: the operator's pause
// that matches the same, and, unless it is one of a category, the pauses and the
// trouble of the providers that it covers, which every worker tries again within
// a second. It returns what it has ended.
func (c *Control) Resume(ctx context.Context, p pause.Pause) ([]pause.Pause, error) {
	workers, err := ReadSnapshots(ctx, c.client, c.records.Prefix())
	if err != nil {
		return nil, err
	}
	shared, err := c.pauses.Read(ctx)
	if err != nil {
		return nil, err
	}
	var ended []pause.Pause
	var routes []string
	for _, s := range PausesInForce(shared, workers) {
		if !Resumes(p, s) {
			continue
		}
		if ended = append(ended, s); s.Kind != pause.Operator {
			routes = append(routes, s.Route())
		}
	}
	there, err := c.pauses.End(ctx, p)
	if err != nil {
		return nil, err
	}
	if there && !slices.ContainsFunc(ended, func(s pause.Pause) bool { return s.Kind == pause.Operator }) { // begun just now
		ended = append(ended, pause.Pause{Kind: pause.Operator, App: p.App, Platform: p.Platform, Category: p.Category})
	}
	if len(routes) == 0 {
		return ended, nil
	}
	return ended, c.pauses.TryAgain(ctx, p.By, routes)
}

// Resumes reports whether Resume with p ends s.
func Resumes(p, s pause.Pause) bool {
	if s.Kind == pause.Operator {
		return s.App == p.App && s.Platform == p.Platform && s.Category == p.Category
	}
	return p.Category == "" && (p.App == "" || p.App == s.App) && push.Covers(p.Platform, s.Platform)
}

// PausesInForce returns the pauses in force, the operators' first, then the providers', then
// the trouble that no pause covers, from the shared pauses and the workers' snapshots. Waiting
// is not set.
func PausesInForce(shared *pause.InForce, workers []Snapshot) []pause.Pause {
	return append(append([]pause.Pause{}, shared.Operators...), ofProviders(shared, workers)...)
}

// ofProviders joins the pauses that are shared with what each worker tells, by
// app and platform. What a worker has seen says more than that it is paused.
func ofProviders(in *pause.InForce, workers []Snapshot) []pause.Pause {
	type key struct {
		kind  pause.Kind
		route string
	}
	found := map[key]*pause.Pause{}
	add := func(s pause.Pause) {
		old := found[key{s.Kind, s.Route()}]
		if old == nil {
			found[key{s.Kind, s.Route()}] = &s
			return
		}
		join(old, &s)
	}
	for _, w := range workers {
		for _, r := range w.Routes {
			s := pause.Pause{Kind: pause.Trouble, App: r.App, Platform: r.Platform, Reason: string(r.Trouble.Reason), Error: r.Trouble.Error,
				At: r.Trouble.Since, Until: r.Trouble.Next, Failures: r.Trouble.Failures, Answers: r.Trouble.Answers, Workers: 1}
			if r.Pause != "" {
				s.Kind, s.Reason, s.Until = pause.Provider, string(r.Pause), r.Until
			}
			if s.Reason != "" {
				add(s)
			}
		}
	}
	for _, p := range in.Providers {
		p.Until = p.Until.UTC()
		add(p)
	}
	list := make([]pause.Pause, 0, len(found))
	for _, s := range found {
		if s.Kind == pause.Trouble && found[key{pause.Provider, s.Route()}] != nil {
			continue
		}
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b pause.Pause) int {
		return cmp.Or(strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.Route(), b.Route()))
	})
	return list
}

// join takes in what another worker tells of the same: the earliest beginning,
// the latest end of a pause, the earliest look at what is in trouble.
func join(s, o *pause.Pause) {
	if s.At.IsZero() || !o.At.IsZero() && o.At.Before(s.At) {
		s.At = o.At
	}
	switch {
	case s.Kind == pause.Trouble && o.Until.Before(s.Until):
		s.Until = o.Until
	case s.Kind == pause.Provider && !s.Until.IsZero() && (o.Until.IsZero() || o.Until.After(s.Until)):
		s.Until, s.Reason, s.Error = o.Until, o.Reason, cmp.Or(o.Error, s.Error)
	}
	s.Error = cmp.Or(s.Error, o.Error)
	s.Failures, s.Answers = s.Failures+o.Failures, s.Answers+o.Answers
	if s.Workers > 0 && o.Workers > 0 {
		s.Workers += o.Workers
	} else {
		s.Workers = 0 // all share it
	}
}
