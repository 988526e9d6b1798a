package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/throttle/limits"
	ways "github.com/pushpace/pushpace/worker/route"
)

// A providersView is the data of providers.html.
type providersView struct {
	// Sentence summarizes the state of the providers.
	Sentence  words.Sentence
	Providers []providerRow
	// Next is the last provider shown, after which the next page begins; "" at the end.
	Next string
	// All means that the page lists all providers, and not only one provider with its workers.
	All    bool
	Quotas []quotaRow
	// More is the number of quotas not shown.
	More int64
}

// A providerRow is the route of an app to a platform, combined from all workers.
type providerRow struct {
	words.Provider
	Workers []routeRow
	// More is the number of workers not shown.
	More int64
}

// A routeRow is one worker's route to a provider.
type routeRow struct {
	Worker, State    string
	Tone             words.Tone
	InFlight, Queued int64
	Share            string // the worker's part of the shared in-flight limit; "" without such a limit
	P50, P99         string
	Answers          []words.Tally
}

// A quotaRow is a rate limit that all workers share.
type quotaRow struct {
	Key   string
	Apps  []string
	Limit string
	// If Overridden, By and Until are the override's author and end.
	Overridden   bool
	By           string
	Until        time.Time
	Free, AtOnce int64
	Used         string
	Waiting      int64
	Back         time.Time // when units are available again; zero if some are available now
	Error        string
}

// providersPage bounds the providers on a page, and mostRoutes the workers of one provider.
const providersPage, mostRoutes = 30, 50

func (c *Console) providersPage(ctx context.Context, v *visit) (page, error) {
	o, err := v.as.Overview(ctx)
	if err != nil {
		return page{}, err
	}
	quotas, more, err := v.as.RecentQuotas(ctx)
	if err != nil {
		return page{}, err
	}
	view := viewOfProviders(o, v.query.Get("of"), v.query.Get("after"))
	view.Quotas, view.More = rowsOfQuotas(quotas), int64(more)
	return page{name: "providers", title: "Providers", live: true, data: view}, nil
}

// viewOfProviders shows one provider with its workers if of names it, as APP/PLATFORM. If of is
// "", it lists the providers that follow the one in after; an empty after begins the list.
func viewOfProviders(o *operate.Overview, of, after string) providersView {
	view := providersView{Sentence: words.SayProviders(o), All: of == ""}
	for i := range o.Providers {
		p := &o.Providers[i]
		switch {
		case of != "" && of != p.App+"/"+string(p.Platform), after != "" && compareProvider(p, after) <= 0:
			continue
		case len(view.Providers) == providersPage:
			last := view.Providers[providersPage-1]
			view.Next = last.App + "/" + last.Platform
			return view
		}
		row := providerRow{Provider: words.OfProvider(o, p)}
		if of != "" {
			row.Workers, row.More = routesOf(o, p)
		}
		view.Providers = append(view.Providers, row)
	}
	return view
}

// compareProvider compares a provider with the provider other, as APP/PLATFORM, in the order of
// the list.
func compareProvider(p *operate.Provider, other string) int {
	i := max(0, strings.LastIndexByte(other, '/'))
	return cmp.Or(cmp.Compare(p.App, other[:i]), cmp.Compare("/"+string(p.Platform), other[i:]))
}

// routesOf returns the workers' routes to a provider, failing ones first, and the number left out.
func routesOf(o *operate.Overview, p *operate.Provider) (rows []routeRow, more int64) {
	for _, w := range o.Workers {
		for _, r := range w.Routes {
			if r.App != p.App || r.Platform != p.Platform {
				continue
			}
			row := routeRow{
				Worker: w.ID, State: words.RouteStates[r.State], InFlight: int64(r.InFlight), Queued: int64(r.Queued),
				P50: words.Took(r.Latency.P50), P99: words.Took(r.Latency.P99), Answers: words.Tallies(r.Answers),
			}
			if r.State != ways.Open {
				row.Tone = words.ReasonTone(cmp.Or(r.Pause, r.Trouble.Reason))
			}
			if r.Share != nil {
				row.Share = words.Grouped(*r.Share)
			}
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b routeRow) int { return cmp.Compare(min(1, b.Tone), min(1, a.Tone)) })
	shown := min(len(rows), mostRoutes)
	return rows[:shown], int64(len(rows) - shown)
}

// rowsOfQuotas returns the quotas in force with the state that live workers report.
func rowsOfQuotas(all []operate.RecentQuota) (rows []quotaRow) {
	for _, q := range all {
		row := quotaRow{Key: cmp.Or(q.Name, q.Quota), Apps: q.Apps, Limit: q.InForce.Words(), Free: int64(q.Free), AtOnce: int64(q.AtOnce)}
		if q.Source != limits.FromConfiguration {
			row.Overridden, row.By, row.Until = true, q.By, q.Until
		}
		if k := q.Known; k != nil {
			row.Used, row.Waiting, row.Back, row.Error = fmt.Sprintf("%.0f %%", 100*k.Used), int64(k.Waiting), k.Until, k.Error
		}
		rows = append(rows, row)
	}
	return rows
}
