package console

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
)

// An overviewView is what overview.html shows.
type overviewView struct {
	// Sentence says how everything is, and Incidents what is wrong, each once.
	Sentence  words.Sentence
	Incidents []words.Sentence
	// Held is what is kept back on purpose: by operators, or because a provider asks for
	// less.
	Held  []words.Sentence
	Tiles []tile
	// Some says that it is of some apps: what workers do for all together is left out, and
	// Sampled that what waits is an estimate.
	Some, Sampled bool
	Throughput    *throughputChart // nil where it is not told, or not known
	Late          string           // of those that a limit alone held, one of a hundred at least
	Waits         []wait
	// Queues are asynq's with how many jobs each has of each of the States.
	Queues  []queueRow
	States  []string
	Letters operate.Letters
	Reasons []tally
	// Accounts compares what was accepted with what became of it.
	Accounts accounts
	Workers  []workerRow
	// NotRead says why a part could not be read, by its name.
	NotRead map[string]string
	// More is how many workers are not shown.
	More int64
	// Redis are its servers, which have shards each where Cluster says so.
	Redis   []redisRow
	Cluster bool
}

// A tile is a number that is looked at first.
type tile struct {
	Name, Value, Class string
	Link               string // where it is told more of; "" for nowhere
}

// A wait is how many wait for a cause.
type wait struct {
	What, Link string
	Count      int64
	About      bool
	Oldest     time.Time
}

// jobStates are those of a queue's jobs.
var jobStates = []store.JobState{store.JobPending, store.JobActive, store.JobScheduled, store.JobPutOff}

// A queueRow is how many jobs a queue has of each of the jobStates.
type queueRow struct {
	Name string
	Jobs []int64
}

// A tally is a word with how many there are.
type tally struct {
	Name  string
	Count int64
	Link  string
}

// accounts is what the audit says.
type accounts struct {
	// State is "" where it is not known, "exact", that it cannot be told, or how many are missing
	// or too many.
	State, Class       string
	Accepted, InFlight int64
}

type workerRow struct {
	ID, Version, State, Class, Late string
	Started                         time.Time
	// Sent and Delivered are those of the minute under way.
	Sent, Delivered int64
}

type redisRow struct {
	Name, Address, Version, State, Class string
	// Shards are those that lie there, and Waiting how many wait in them; Replicas is how
	// many others have its keys. "–" for what is not known.
	Shards, Waiting, Replicas string
	// At is when they were counted, where that is not now.
	At time.Time
}

const (
	// mostWorkers are shown, of what is wrong mostHeld, and as many of what is held back.
	mostWorkers, mostHeld = 30, 20
)

func (c *Console) overviewPage(ctx context.Context, v *visit) (page, error) {
	var (
		audit *control.Audit
		done  *operate.Throughput
		other sync.WaitGroup
	)
	within := operate.Range(cmp.Or(v.query.Get("range"), string(operate.QuarterHour)))
	if !slices.Contains(operate.Ranges, within) {
		return page{}, errBadQuery
	}
	other.Go(func() { audit, _ = v.as.Audit(ctx) })             // nil where it is not known, or not told
	other.Go(func() { done, _ = v.as.Throughput(ctx, within) }) // as above
	o, err := v.as.Overview(ctx)
	other.Wait()
	if err != nil {
		return page{}, err
	}
	view := viewOfOverview(o, audit)
	if done != nil {
		view.Throughput = drawThroughput(done, within)
	}
	return page{name: "overview", title: "Overview", live: true, data: view}, nil
}

func viewOfOverview(o *operate.Overview, audit *control.Audit) overviewView {
	view := overviewView{
		Sentence: sentenceOf(o), Incidents: incidentsOf(o, audit), Tiles: tilesOf(o), Some: o.Apps != nil, Sampled: o.Sampled, Late: taken(o.LateP99), Letters: o.Letters,
		Accounts: accountsOf(audit), NotRead: map[string]string{},
	}
	for _, u := range o.Unread {
		view.NotRead[string(u.Part)] = o.NotRead(u.Part)
	}
	for _, state := range jobStates {
		view.States = append(view.States, words.Job(string(state)))
	}
	for _, q := range o.Queues {
		row := queueRow{Name: q.Name}
		for _, state := range jobStates {
			row.Jobs = append(row.Jobs, q.Jobs[state])
		}
		view.Queues = append(view.Queues, row)
	}
	for _, s := range o.Waits {
		view.Waits = append(view.Waits, wait{words.Cause(s.For), address(Path+"waiting", field{"for", string(s.For)}), s.Count, s.Sampled, s.Oldest})
	}
	for i := range o.Pauses {
		if p := &o.Pauses[i]; classOfPause(p) == "waits" && len(view.Held) < mostHeld {
			view.Held = append(view.Held, words.Pause(p, o.At))
		}
	}
	for reason, n := range o.Letters.Reasons {
		view.Reasons = append(view.Reasons, tally{cmp.Or(reason, "none"), int64(n), address(Path+"dead-letters", field{"reason", reason})})
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
		view.Cluster = view.Cluster || n.Shards != nil
		view.Redis = append(view.Redis, rowOfRedis("Redis", n))
	}
	for _, n := range o.LimitsRedis {
		view.Redis = append(view.Redis, rowOfRedis("The limits' Redis", n))
	}
	return view
}

// sentenceOf says how much waits, and who sends it.
func sentenceOf(o *operate.Overview) words.Sentence {
	about := ""
	if o.Sampled {
		about = "about "
	}
	waits := about + counted(o.Waiting, "waits", "wait")
	switch {
	case o.WaitingNotRead() != "":
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
	if n := len(o.Workers); n > 0 { // else that is an incident
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
	return words.Clauses(clauses...)
}

// incidentsOf returns what is wrong, what matters most first.
func incidentsOf(o *operate.Overview, audit *control.Audit) (all []words.Sentence) {
	add := func(parts ...any) {
		if len(all) < mostHeld {
			all = append(all, words.Say(append(parts, ".")...))
		}
	}
	if len(o.Workers) == 0 && o.NotRead(operate.PartWorkers) == "" {
		add(words.NoWorker)
	}
	for _, n := range slices.Concat(o.Redis, o.LimitsRedis) {
		switch {
		case n.Error != "":
			add(append(append([]any{"Redis at ", words.Printable(n.Address), " does not answer"}, lyingThere(n)...), ": ", words.Printable(n.Error))...)
		case n.Failing != "":
			add("Redis at ", words.Printable(n.Address), ": ", words.Printable(n.Failing))
		}
	}
	if slices.ContainsFunc(o.Workers, func(s control.Snapshot) bool { return !s.Limits.Since.IsZero() }) {
		add("The limits' Redis does not answer the workers")
	}
	told := map[[2]string]bool{} // by app and platform
	for i := range o.Pauses {
		if p := &o.Pauses[i]; classOfPause(p) == "fault" {
			told[[2]string{p.App, string(p.Platform)}] = true
			add(words.Pause(p, o.At))
		}
	}
	for i := range o.Providers {
		p := &o.Providers[i]
		if row := rowOfProvider(o, p); row.Class == "fault" && !told[[2]string{p.App, string(p.Platform)}] {
			add(row.Name, " of ", words.Printable(p.App), ": ", row.State, row.Why)
		}
	}
	if n := len(slices.DeleteFunc(slices.Clone(o.Workers), func(s control.Snapshot) bool { return s.Pulls || s.Draining })); n > 0 {
		add(counted(n, "worker gets", "workers get"), " no answer when asking Redis for jobs")
	}
	if a := accountsOf(audit); a.Class != "" {
		add("The accounts differ: ", a.State)
	}
	for _, u := range o.Unread {
		if u.Shards != nil {
			add("Read in part: ", u.Part.Words(), " (", words.Printable(u.Problem), ")")
			continue
		}
		add("Not read: ", u.Part.Words(), " (", words.Printable(u.Problem), ")")
	}
	return all
}

// lyingThere says of a master of a Cluster which shards lie there, and what waits in them.
func lyingThere(n redisconn.Node) []any {
	if len(n.Shards) == 0 {
		return nil
	}
	there := []any{", where shards " + words.Shards(n.Shards) + " lie"}
	if len(n.Shards) == 1 {
		there = []any{", where shard " + words.Shards(n.Shards) + " lies"}
	}
	if n.Waiting != nil && !n.WaitingAt.IsZero() {
		there = append(there, ", and "+words.Grouped(*n.Waiting)+" waited at ", n.WaitingAt)
	}
	return there
}

// tilesOf returns the numbers that are looked at first. Those of what workers do for all
// apps together are there for a bearer of all.
func tilesOf(o *operate.Overview) []tile {
	number := func(name string, n int64, about bool, unread, link string) tile {
		t := tile{Name: name, Value: words.Grouped(n), Link: link}
		switch {
		case unread != "":
			t.Value, t.Class = "not read", "fault"
		case about:
			t.Value = "about " + t.Value
		}
		return t
	}
	tiles := []tile{
		number("Waiting", o.Waiting, o.Sampled, o.WaitingNotRead(), Path+"waiting"),
		number("Dead letters", o.Letters.Count, o.Letters.Sampled, o.NotRead(operate.PartLetters), Path+"dead-letters"),
	}
	if o.Apps != nil {
		return tiles
	}
	var delivered, failed int64
	minute := o.At.UTC().Truncate(time.Minute)
	for i := range o.Minutes {
		m := &o.Minutes[i]
		failed += m.Failed()
		if m.At.Equal(minute.Add(-time.Minute)) {
			delivered = m.Ended[push.Delivered]
		}
	}
	due := tile{Name: "Oldest due", Value: "–"}
	switch {
	case o.NotRead(operate.PartOldestDue) != "":
		due.Value, due.Class = "not read", "fault"
	case !o.OldestDue.IsZero():
		due.Value = lasting(o.At.Sub(o.OldestDue))
	}
	drained := tile{Name: "Drained in", Value: "–"}
	switch {
	case o.NotRead(operate.PartWaits) != "", o.NotRead(operate.PartMinutes) != "":
		drained.Value, drained.Class = "not read", "fault"
	case o.DrainsIn > 0:
		drained.Value = lasting(o.DrainsIn)
	}
	return append(tiles,
		number("Delivered a minute", delivered, false, o.NotRead(operate.PartMinutes), ""),
		number("Failed, 15 minutes", failed, false, o.NotRead(operate.PartMinutes), Path+"dead-letters"),
		due, drained)
}

func accountsOf(a *control.Audit) accounts {
	if a == nil {
		return accounts{}
	}
	told := accounts{State: "exact", Accepted: a.Accepted, InFlight: a.InFlight}
	switch a.Balance() {
	case control.Untold:
		told.State = "cannot tell: " + store.Silent(a.Unread)
	case control.Unbalanced:
		told.Class = "fault"
		told.State = counted(a.Difference, "waits, and is on no queue", "wait, and are on no queue")
		if a.Difference < 0 {
			told.State = counted(-a.Difference, "is on a queue, and does not wait", "are on a queue, and do not wait")
		}
	}
	return told
}

func rowOfWorker(s *control.Snapshot, now time.Time) workerRow {
	row := workerRow{ID: s.ID, Version: s.Version, State: "runs", Started: s.Started, Late: taken(s.LateP99)}
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
	row := redisRow{Name: name, Address: n.Address, Version: n.Version, State: words.Grouped(n.UsedMemory>>20) + " MiB", Shards: cmp.Or(words.Shards(n.Shards), "–"), Waiting: "–", Replicas: "–", At: n.WaitingAt}
	if n.Waiting != nil {
		row.Waiting = words.Grouped(*n.Waiting)
	}
	if n.Replicas != nil {
		row.Replicas = words.Grouped(*n.Replicas)
	}
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
