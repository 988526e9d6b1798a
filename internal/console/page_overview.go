package console

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pushpace/pushpace/internal/lately"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/queue"
)

// An overviewView is what overview.html shows.
type overviewView struct {
	// Sentence says how everything is.
	Sentence words.Sentence
	// Some says that it is of some apps: what workers do for all together is left out, and
	// Sampled that what waits is an estimate.
	Some, Sampled bool
	// Rates are what was done in each of the last minutes, an outcome each, and Minutes
	// the same by the minute; empty for a bearer of some apps.
	Rates   []rate
	Minutes []minute
	Late    string // of those that a limit alone held, one of a hundred at least
	Waits   []wait
	Queues  []operate.Queue
	States  []queue.JobState
	Held    []heldBack
	// Troubled are the providers for which some worker does not send.
	Troubled []providerRow
	Letters  operate.Letters
	Reasons  []tally
	// Accounts compares what was accepted with what became of it.
	Accounts accounts
	Workers  []workerRow
	// NotRead says why a part could not be read, by its name.
	NotRead map[string]string
	// More is how many workers are not shown.
	More  int64
	Redis []redisRow
}

// A rate is one outcome's, with a bar for each minute.
type rate struct {
	Name, Class string
	Count, Most int64
	Bars        []rateBar
}

// A rateBar is a rectangle in a picture of ratesWidth by ratesHeight.
type rateBar struct{ X, Y, Width, Height int }

const (
	rateBarWidth, rateBarGap = 10, 2
	ratesHeight              = 32
	// ratesWidth is that of all bars.
	ratesWidth = lately.Kept * (rateBarWidth + rateBarGap)
)

// A minute is how many of each of the rates there were, in their order.
type minute struct {
	At     time.Time
	Counts []int64
}

// A wait is how many wait for a cause.
type wait struct {
	For, What string
	Count     int64
	About     bool
	Oldest    time.Time
}

// A heldBack is a pause, or trouble, in words.
type heldBack struct {
	Class string
	Words words.Sentence
}

// A tally is a word with how many there are.
type tally struct {
	Name  string
	Count int64
}

// accounts is what the audit says.
type accounts struct {
	// State is "" where it is not known, "exact", or how many are missing or too many.
	State, Class       string
	Accepted, InFlight int64
}

type workerRow struct {
	ID, Version, State, Class, Late string
	Started                         time.Time
	Waiting                         int64
	// Sent and Delivered are those of the minute under way.
	Sent, Delivered int64
}

type redisRow struct{ Name, Address, Version, State, Class string }

const (
	// mostWorkers are shown, and of what is held back and does not send mostHeld; of the
	// former are so many in the sentence.
	mostWorkers, mostHeld, heldInSentence = 30, 20, 2
)

func (c *Console) overviewPage(ctx context.Context, v *visit) (page, error) {
	var (
		audit *control.Audit
		other sync.WaitGroup
	)
	other.Go(func() { audit, _ = v.as.Audit(ctx) }) // nil where it is not known, or not told
	o, err := v.as.Overview(ctx)
	other.Wait()
	if err != nil {
		return page{}, err
	}
	return page{name: "overview", title: "Overview", live: true, data: viewOfOverview(o, audit)}, nil
}

func viewOfOverview(o *operate.Overview, audit *control.Audit) overviewView {
	view := overviewView{
		Sentence: sentenceOf(o, audit), Some: o.Apps != nil, Sampled: o.Sampled, Late: taken(o.LateP99), Queues: o.Queues, Letters: o.Letters,
		States: []queue.JobState{queue.JobPending, queue.JobActive, queue.JobScheduled, queue.JobPutOff}, Accounts: accountsOf(audit), NotRead: map[string]string{},
	}
	for _, u := range o.Unread {
		view.NotRead[string(u.Part)] = u.Problem
	}
	if o.Apps == nil {
		view.Rates, view.Minutes = ratesOf(o.Minutes, o.At)
	}
	for _, s := range o.Waits {
		view.Waits = append(view.Waits, wait{string(s.For), words.Cause(s.For), s.Count, s.Sampled, s.Oldest})
	}
	for i := range o.Pauses[:min(len(o.Pauses), mostHeld)] {
		view.Held = append(view.Held, heldBack{classOfPause(&o.Pauses[i]), words.Pause(&o.Pauses[i], o.At)})
	}
	for i := range o.Providers {
		if row := rowOfProvider(o, &o.Providers[i]); row.Class != "" && len(view.Troubled) < mostHeld {
			view.Troubled = append(view.Troubled, row)
		}
	}
	for reason, n := range o.Letters.Reasons {
		view.Reasons = append(view.Reasons, tally{cmp.Or(reason, "none"), int64(n)})
	}
	slices.SortFunc(view.Reasons, func(a, b tally) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	for i := range o.Workers {
		view.Workers = append(view.Workers, rowOfWorker(&o.Workers[i], o.At))
	}
	slices.SortStableFunc(view.Workers, func(a, b workerRow) int { return cmp.Compare(b.Class, a.Class) })
	if n := len(view.Workers) - mostWorkers; n > 0 {
		view.Workers, view.More = view.Workers[:mostWorkers], int64(n)
	}
	for _, n := range o.Redis {
		view.Redis = append(view.Redis, rowOfRedis("Redis", n))
	}
	for _, n := range o.LimitsRedis {
		view.Redis = append(view.Redis, rowOfRedis("The limits' Redis", n))
	}
	return view
}

// sentenceOf says how everything is, what matters most first.
func sentenceOf(o *operate.Overview, audit *control.Audit) words.Sentence {
	about := ""
	if o.Sampled {
		about = "about "
	}
	waits := about + counted(o.Waiting, "waits", "wait")
	switch {
	case o.Apps == nil && o.NotRead(operate.PartWaiting) != "", o.Apps != nil && o.NotRead(operate.PartWaits) != "":
		waits = "it is not known how many wait"
	case o.Waiting == 0 && o.Sampled:
		waits = "nothing waits that was looked at"
	case o.Waiting == 0:
		waits = "nothing waits"
	}
	clauses := []words.Sentence{words.Say(waits)}
	for _, s := range o.Waits {
		if s.For == control.ForWorker && !s.Oldest.IsZero() {
			clauses[0] = words.Say(clauses[0], ", "+counted(s.Count, "is due", "are due")+", and the oldest of what is due was accepted "+lasting(o.At.Sub(s.Oldest))+" ago")
		}
	}
	switch n := len(o.Workers); {
	case o.NotRead(operate.PartWorkers) != "":
		clauses = append(clauses, words.Say("it is not known which workers run"))
	case n == 0:
		clauses = append(clauses, words.Say("no worker runs, and nothing is sent"))
	default:
		text := counted(n, "worker runs", "workers run")
		if o.Apps == nil {
			delivered := int64(0)
			for _, m := range o.Minutes {
				delivered += m.Ended[push.Delivered]
			}
			text += ", and delivered " + words.Grouped(delivered) + " in the last 15 minutes"
		}
		clauses = append(clauses, words.Say(text))
	}
	if slices.ContainsFunc(o.LimitsRedis, func(n redisconn.Node) bool { return n.Error != "" }) ||
		slices.ContainsFunc(o.Workers, func(s control.Snapshot) bool { return !s.Limits.Since.IsZero() }) {
		clauses = append(clauses, words.Say("the limits' Redis does not answer"))
	}
	for i := range o.Pauses[:min(len(o.Pauses), heldInSentence)] {
		clauses = append(clauses, words.Pause(&o.Pauses[i], o.At))
	}
	if n := len(o.Pauses) - heldInSentence; n > 0 {
		clauses = append(clauses, words.Say(counted(n, "more is held back", "more are held back")))
	}
	for _, u := range o.Unread {
		clauses = append(clauses, words.Say("not read: "+string(u.Part)+" ("+u.Problem+")"))
	}
	if a := accountsOf(audit); a.Class != "" {
		clauses = append(clauses, words.Say("the accounts differ: "+a.State))
	}
	return words.Clauses(clauses...)
}

// outcomes are what the rates are of.
var outcomes = []struct {
	name, class string
	of          func(m *control.Minute) int64
}{
	{"Sent", "", func(m *control.Minute) int64 { return m.Sent }},
	{"Put off by a limit", "waits", func(m *control.Minute) int64 { return m.Deferred }},
	{"Delivered", "", func(m *control.Minute) int64 { return m.Ended[push.Delivered] }},
	{"Undeliverable", "", func(m *control.Minute) int64 { return m.Ended[push.Undeliverable] }},
	{"Failed", "fault", func(m *control.Minute) int64 {
		return m.Ended[push.Rejected] + m.Ended[push.Exhausted] + m.Ended[push.Malformed]
	}},
	{"Ended unsent", "", func(m *control.Minute) int64 {
		return m.Ended[push.Expired] + m.Ended[push.Cancelled] + m.Ended[push.Superseded]
	}},
}

// ratesOf returns the rates of the last minutes, with that of now.
func ratesOf(all []control.Minute, now time.Time) (rates []rate, minutes []minute) {
	byTime := map[time.Time]*control.Minute{}
	for i := range all {
		byTime[all[i].At.UTC()] = &all[i]
	}
	last := now.UTC().Truncate(time.Minute)
	for i := range lately.Kept {
		at := last.Add(time.Duration(i+1-lately.Kept) * time.Minute)
		m := cmp.Or(byTime[at], new(control.Minute))
		minutes = append(minutes, minute{At: at})
		for _, o := range outcomes {
			minutes[i].Counts = append(minutes[i].Counts, o.of(m))
		}
	}
	for row, o := range outcomes {
		r := rate{Name: o.name, Class: o.class}
		for _, m := range minutes {
			r.Count, r.Most = r.Count+m.Counts[row], max(r.Most, m.Counts[row])
		}
		for i, m := range minutes {
			if n := m.Counts[row]; n > 0 {
				height := max(1, int(n*ratesHeight/r.Most))
				r.Bars = append(r.Bars, rateBar{i * (rateBarWidth + rateBarGap), ratesHeight - height, rateBarWidth, height})
			}
		}
		rates = append(rates, r)
	}
	return rates, minutes
}

func accountsOf(a *control.Audit) accounts {
	if a == nil {
		return accounts{}
	}
	told := accounts{State: "exact", Accepted: a.Accepted, InFlight: a.InFlight}
	if !a.Balanced() {
		told.Class = "fault"
		told.State = counted(a.Difference, "waits, and is on no queue", "wait, and are on no queue")
		if a.Difference < 0 {
			told.State = counted(-a.Difference, "is on a queue, and does not wait", "are on a queue, and do not wait")
		}
	}
	return told
}

func rowOfWorker(s *control.Snapshot, now time.Time) workerRow {
	row := workerRow{ID: s.ID, Version: s.Version, State: "runs", Started: s.Started, Waiting: int64(s.Waiting), Late: taken(s.LateP99)}
	switch {
	case s.Draining:
		row.State = "stops"
	case !s.Pulls:
		row.State, row.Class = "gets no answer when it asks Redis for jobs", "fault"
	case !s.Limits.Since.IsZero():
		row.State, row.Class = "the limits' Redis is away: "+s.Limits.Cause, "fault"
	}
	for _, m := range s.Minutes {
		if m.At.Equal(now.Truncate(time.Minute)) {
			row.Sent, row.Delivered = m.Sent, m.Ended[push.Delivered]
		}
	}
	return row
}

func rowOfRedis(name string, n redisconn.Node) redisRow {
	row := redisRow{Name: name, Address: n.Address, Version: n.Version, State: words.Grouped(n.UsedMemory>>20) + " MiB"}
	switch {
	case n.Error != "":
		row.State, row.Class = "does not answer: "+n.Error, "fault"
	case n.Failing != "":
		row.State, row.Class = n.Failing, "fault"
	case n.MaxMemory > 0:
		row.State += " of " + words.Grouped(n.MaxMemory>>20) + " MiB"
	}
	return row
}
