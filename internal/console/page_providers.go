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

// A providersView is what providers.html shows.
type providersView struct {
	// Sentence says how they are.
	Sentence  words.Sentence
	Providers []providerRow
	// Next is where the list goes on; "" at its end.
	Next string
	// All says that it is of all providers, and not of one with its workers.
	All    bool
	Quotas []quotaRow
	// More is how many quotas are not shown.
	More int64
}

// A providerRow is one app's way to one platform, as all workers together see it.
type providerRow struct {
	words.Provider
	Workers []wayRow
	// More is how many workers are not shown.
	More int64
}

// A wayRow is one worker's way to a provider.
type wayRow struct {
	Worker, Breaker  string
	Tone             words.Tone
	InFlight, Queued int64
	Share            string // of what all may have in flight; "" where they are not bounded together
	P50, P99         string
	Answers          []words.Tally
}

// A quotaRow is what all workers together may send of something.
type quotaRow struct {
	Key   string
	Apps  []string
	Limit string
	// By and Until are those of the override that it is from.
	Overridden   bool
	By           string
	Until        time.Time
	Free, AtOnce int64
	Used         string
	Waiting      int64
	Back         time.Time // when there is something again; zero when there is
	Error        string
}

// A page shows so many providers, and of one of them so many workers.
const providersPage, mostWays = 30, 50

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

// viewOfProviders shows one, as APP/PLATFORM, with its workers, or those that come after
// one; "" is none.
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
			row.Workers, row.More = waysOf(o, p)
		}
		view.Providers = append(view.Providers, row)
	}
	return view
}

// compareProvider says where a provider is in the list, seen from another.
func compareProvider(p *operate.Provider, other string) int {
	i := max(0, strings.LastIndexByte(other, '/'))
	return cmp.Or(cmp.Compare(p.App, other[:i]), cmp.Compare("/"+string(p.Platform), other[i:]))
}

// waysOf are those of the workers to a provider, those in trouble first, and how many
// more there are.
func waysOf(o *operate.Overview, p *operate.Provider) (rows []wayRow, more int64) {
	for _, w := range o.Workers {
		for _, r := range w.Routes {
			if r.App != p.App || r.Platform != p.Platform {
				continue
			}
			row := wayRow{
				Worker: w.ID, Breaker: words.Breakers[r.Breaker], InFlight: int64(r.InFlight), Queued: int64(r.Queued),
				P50: words.Took(r.Latency.P50), P99: words.Took(r.Latency.P99), Answers: words.Tallies(r.Answers),
			}
			if r.Breaker != ways.BreakerClosed {
				row.Tone = words.ReasonTone(cmp.Or(r.Pause, r.Trouble.Reason))
			}
			if r.Share != nil {
				row.Share = words.Grouped(*r.Share)
			}
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b wayRow) int { return cmp.Compare(min(1, b.Tone), min(1, a.Tone)) })
	shown := min(len(rows), mostWays)
	return rows[:shown], int64(len(rows) - shown)
}

// rowsOfQuotas are the quotas: what is in force of each, and what the workers that are
// alive know of it.
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
