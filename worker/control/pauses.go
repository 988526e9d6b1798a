package control

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/pause"
)

// Pause begins an operator's pause: see pause.Store.Begin.
func (c *Control) Pause(ctx context.Context, p *pause.Pause) error { return c.pauses.Begin(ctx, p) }

// Resume ends the operator's pause with the same selector. If p has no category, it also ends matching
// pauses and trouble of providers; every worker probes these providers within a second. It returns the
// ended pauses.
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
	if there && !slices.ContainsFunc(ended, func(s pause.Pause) bool { return s.Kind == pause.Operator }) { // the pause began after the read
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

// PausesInForce returns the pauses in force, by the pauses in Redis and the workers' snapshots:
// operators', then providers', then trouble without a pause. Waiting is not set.
func PausesInForce(shared *pause.InForce, workers []Snapshot) []pause.Pause {
	return append(append([]pause.Pause{}, shared.Operators...), ofProviders(shared, workers)...)
}

// ofProviders merges shared pauses with the workers' reports, by app and platform. A worker's
// report has details that a shared pause lacks.
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

// join merges o, a further report of the same pause, into s: the earliest beginning, the latest end of a
// pause, the earliest probe of trouble.
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
		s.Workers = 0 // shared by all workers
	}
}
