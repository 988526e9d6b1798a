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
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/pause"
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
	App      string
	Platform string
	// Name is the platform's as the API has it.
	Name string
	// State says how it is, and Class how that looks: "" for one that works, "waits" for
	// one that is held back, "fault" for one that fails.
	State, Class string
	Why          words.Sentence
	// Pauses are the operators' that keep back what is for it.
	Pauses           []words.Sentence
	InFlight, Queued int64
	P50, P99         string
	Answers          []tally
	Credential       string // how long the first one is valid
	CredentialEnds   time.Time
	CredentialClass  string
	Workers          []wayRow
	// More is how many workers are not shown.
	More int64
}

// A wayRow is one worker's way to a provider.
type wayRow struct {
	Worker, Breaker, Class string
	InFlight, Queued       int64
	Share                  string // of what all may have in flight; "" where they are not bounded together
	P50, P99               string
	Answers                []tally
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

const (
	// A page shows so many providers, and of one of them so many workers.
	providersPage, mostWays = 30, 50
	// credentialSoon is when the end of a credential is near.
	credentialSoon = 14 * 24 * time.Hour
)

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
	view := providersView{Sentence: sentenceOfProviders(o), All: of == ""}
	for i := range o.Providers {
		p := &o.Providers[i]
		switch {
		case of != "" && of != p.App+"/"+string(p.Platform), after != "" && compareProvider(p, after) <= 0:
			continue
		case len(view.Providers) == providersPage:
			last := view.Providers[providersPage-1]
			view.Next = last.App + "/" + last.Name
			return view
		}
		row := rowOfProvider(o, p)
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

func sentenceOfProviders(o *operate.Overview) words.Sentence {
	if why := o.NotRead(operate.PartWorkers); why != "" {
		return words.Clauses(words.Say("it is not known which workers run: ", words.Printable(why)))
	}
	if len(o.Workers) == 0 {
		return words.Clauses(words.Say("no worker runs, and nothing is known of the providers"))
	}
	var fail, wait int64
	for i := range o.Providers {
		switch rowOfProvider(o, &o.Providers[i]).Class {
		case "fault":
			fail++
		case "waits":
			wait++
		}
	}
	clauses := []words.Sentence{words.Say(fmt.Sprintf("%s, by %s", counted(len(o.Providers), "provider", "providers"), counted(len(o.Workers), "worker", "workers")))}
	if fail > 0 {
		clauses = append(clauses, words.Say(counted(fail, "does not work", "do not work")))
	}
	if wait > 0 {
		clauses = append(clauses, words.Say(counted(wait, "is held back", "are held back")))
	}
	if fail+wait == 0 {
		clauses = append(clauses, words.Say("all of them work"))
	}
	return words.Clauses(clauses...)
}

// asksForLess are the reasons by which push services ask for less: nothing is wrong.
var asksForLess = []providers.Reason{"TooManyRequests", "TooManyProviderTokenUpdates", "QUOTA_EXCEEDED", "RESOURCE_EXHAUSTED", "throttled"}

// classOf is how it looks that a provider is held back for that reason.
func classOf(reason providers.Reason) string {
	if slices.Contains(asksForLess, reason) {
		return "waits"
	}
	return "fault"
}

func classOfPause(p *pause.Pause) string {
	if p.Kind == pause.Operator {
		return "waits"
	}
	return classOf(providers.Reason(p.Reason))
}

func rowOfProvider(o *operate.Overview, p *operate.Provider) providerRow {
	row := providerRow{
		App: p.App, Platform: push.PlatformTitle(p.Platform), Name: string(p.Platform), State: "works",
		InFlight: int64(p.InFlight), Queued: int64(p.Queued), P50: taken(p.Latency.P50), P99: taken(p.Latency.P99), Answers: answersOf(p.Answers),
		CredentialEnds: p.CredentialEnds,
	}
	for i := range o.Pauses {
		if q := &o.Pauses[i]; q.Kind == pause.Operator && (q.App == "" || q.App == p.App) && push.Covers(q.Platform, p.Platform) {
			row.Pauses = append(row.Pauses, words.Pause(q, o.At))
			if q.Category == "" {
				row.State, row.Class = "paused by an operator", "waits"
			}
		}
	}
	switch {
	case p.Pause != "":
		row.State, row.Class = "paused for "+string(p.Pause), classOf(p.Pause)
		if !p.Until.IsZero() {
			row.Why = words.Say(", until ", p.Until)
		}
	case !p.Trouble.Since.IsZero():
		row.State, row.Class = "in trouble: "+string(p.Trouble.Reason), classOf(p.Trouble.Reason)
	case p.Troubled > 0 && row.Class == "":
		row.State, row.Class = "being tried again", "waits"
	}
	if t := p.Trouble; !t.Since.IsZero() {
		row.Why = words.Say(row.Why, ", since ", t.Since)
		if share := words.Share(t.Failures, t.Answers, string(t.Reason)); share != "" {
			row.Why = words.Say(row.Why, ": ", share)
		}
		if t.Error != "" {
			row.Why = words.Say(row.Why, ": ", words.Printable(t.Error))
		}
	}
	if p.Troubled > 0 && p.Troubled < p.Workers {
		row.Why = words.Say(row.Why, fmt.Sprintf(" (for %d of %d workers)", p.Troubled, p.Workers))
	}
	if p.Shareless > 0 {
		row.Why = words.Say(row.Why, fmt.Sprintf(" %d of %d workers have no share of its concurrency.", p.Shareless, p.Workers))
	}
	if left := p.CredentialEnds.Sub(o.At); !p.CredentialEnds.IsZero() {
		row.Credential = lasting(left)
		switch {
		case left <= 0:
			row.Credential, row.CredentialClass = "has ended", "fault"
		case left < credentialSoon:
			row.CredentialClass = "fault"
		}
	}
	return row
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
				Worker: w.ID, Breaker: breakers[r.Breaker], InFlight: int64(r.InFlight), Queued: int64(r.Queued),
				P50: taken(r.Latency.P50), P99: taken(r.Latency.P99), Answers: answersOf(r.Answers),
			}
			if r.Breaker != ways.BreakerClosed {
				row.Class = classOf(cmp.Or(r.Pause, r.Trouble.Reason))
			}
			if r.Share != nil {
				row.Share = words.Grouped(*r.Share)
			}
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b wayRow) int { return cmp.Compare(min(1, len(b.Class)), min(1, len(a.Class))) })
	shown := min(len(rows), mostWays)
	return rows[:shown], int64(len(rows) - shown)
}

// breakers say what the states of a breaker mean.
var breakers = map[ways.BreakerState]string{
	ways.BreakerClosed: "closed", ways.BreakerHalfOpen: "half open: one is tried", ways.BreakerOpen: "open: nothing is sent",
}

// answersOf are those by their reasons, the most frequent first.
func answersOf(all map[providers.Reason]int64) (list []tally) {
	for reason, n := range all {
		list = append(list, tally{Name: string(reason), Count: n})
	}
	slices.SortFunc(list, func(a, b tally) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return list
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
