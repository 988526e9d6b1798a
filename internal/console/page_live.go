package console

import (
	"context"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/watch"
)

// liveRows is how many events the page has.
const liveRows = 100

// A liveFilter says which events are looked for; "" is any.
type liveFilter struct {
	App, Category string
	What          push.State
}

// A liveView is what live.html shows.
type liveView struct {
	liveFilter
	Apps  []string
	Whats []liveWhat
	Since time.Time
	// Rows are the last ones that match, of Matching, the newest first.
	Rows     []liveRow
	Matching int64
	// Left is how many events the workers did not tell of, and Some that there are such,
	// to somebody whom the number is not for.
	Left int64
	Some bool
}

// A liveWhat is what can become of a notification.
type liveWhat struct {
	State  push.State
	Label  string
	Chosen bool
}

// A liveRow is one event, in words.
type liveRow struct {
	watch.Event
	What, Class string
	Why         words.Sentence
	// Urgency is its priority; "" for the usual one.
	Urgency push.Priority
}

// liveStates are what an event may tell.
var liveStates = append([]push.State{push.Waiting}, ledger.EndStates...)

func (c *Console) livePage(ctx context.Context, v *visit) (page, error) {
	if err := checkNames(v.query); err != nil {
		return page{}, err
	}
	f := liveFilter{v.query.Get("app"), v.query.Get("category"), push.State(v.query.Get("what"))}
	if len(f.App) > push.MaxNameBytes || len(f.Category) > push.MaxNameBytes || f.What != "" && !slices.Contains(liveStates, f.What) {
		return page{}, errBadQuery
	}
	seen, err := v.as.Events(ctx)
	if err != nil {
		return page{}, err
	}
	view := viewOfLive(seen, f, v.as.SeesAll(), time.Now())
	view.Apps = v.as.Apps()
	return page{name: "live", title: "Live", live: true, data: view}, nil
}

// viewOfLive makes the page of what was seen. How many more there were is told to who sees
// all of them.
func viewOfLive(seen watch.Seen, f liveFilter, all bool, now time.Time) liveView {
	view := liveView{liveFilter: f, Since: seen.Since, Some: seen.Left > 0}
	if all {
		view.Left = seen.Left
	}
	for _, s := range liveStates {
		view.Whats = append(view.Whats, liveWhat{s, labelOf(s), s == f.What})
	}
	for _, e := range slices.Backward(seen.Events) {
		if f.App != "" && e.App != f.App || f.Category != "" && e.Category != f.Category || f.What != "" && e.State != f.What {
			continue
		}
		if view.Matching++; view.Matching <= liveRows {
			view.Rows = append(view.Rows, rowOf(e))
		}
	}
	return view
}

func rowOf(e watch.Event) liveRow {
	row := liveRow{Event: e, What: labelOf(e.State), Why: words.Say(words.Printable(e.Reason))}
	if e.Priority != push.Default {
		row.Urgency = e.Priority
	}
	switch {
	case e.State == push.Waiting:
		row.Class = "waits"
		s := control.Status{Record: &ledger.Record{App: e.App}, Waits: &control.Waits{For: control.Cause(e.For), Reason: e.Reason}}
		row.Why = words.Waits(&s, e.At)[0]
		if s.Waits.For == control.ForLimit && e.Reason != "" {
			row.Why = words.Say(row.Why, ": ", words.Printable(e.Reason))
		}
	case e.State.Dead():
		row.Class = "fault"
	}
	return row
}

// labelOf is the state of an event in the page's words: what waits was put off.
func labelOf(s push.State) string {
	if s == push.Waiting {
		return "put off"
	}
	return string(s)
}
