package words

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
)

// An Overview is operate's overview in text, for a terminal and a browser.
type Overview struct {
	// Answer describes the workers, the number of waiting notifications, and whether an incident is
	// known. Tone shows the incident too.
	Answer Sentence
	Tone   Tone
	// Incidents are the faults, each once, the gravest first. Held are the pauses, and the
	// providers that ask for fewer pushes.
	Incidents, Held []Sentence
	Figures         []Figure
	Waits           []Wait
	Letters         Letters
	Accounts        Accounts
	Workers         []Worker
	Servers         []Server
}

// A Figure is one of the overview's main numbers.
type Figure struct {
	Name, Value string // Value is "" if there is none
	Hint        string // why there is none, if that needs a reason
	Tone        Tone
}

// A Wait is the number of notifications that wait for a cause.
type Wait struct {
	For         inspect.Cause
	Text, Count string
	Oldest      time.Time // the first known acceptance
}

// Letters are the dead letters.
type Letters struct {
	Text    string // their number; "" for 0
	Reasons []Tally
}

// A Tally is a name with its count.
type Tally struct {
	Name  string
	Count int64
}

// Accounts are the results of the audit.
type Accounts struct {
	State              string // "" if it is not known
	Tone               Tone
	Accepted, InFlight int64
}

// A Worker is a running worker. Sent and Delivered count the current minute.
type Worker struct {
	ID, Version, Late string
	State             Sentence
	Tone              Tone
	Started           time.Time
	Sent, Delivered   int64
}

// A Server is a server of Redis. A server of a Cluster has shards, replicas, and the number of
// notifications that wait in its shards.
type Server struct {
	Purpose, Address, Version string
	State                     Sentence
	Tone                      Tone
	Shards, Waiting, Replicas string    // "" if not known
	WaitingAt                 time.Time // when Waiting was counted; zero for now
}

// mostIncidents bounds the listed incidents, and also the listed pauses.
const mostIncidents = 20

// OfOverview puts an overview into words, with the audit unless that is nil.
func OfOverview(o *operate.Overview, audit *inspect.Audit) *Overview {
	v := &Overview{Figures: figures(o), Letters: letters(&o.Letters), Accounts: OfAudit(audit)}
	for i := range o.Workers {
		v.Workers = append(v.Workers, OfWorker(&o.Workers[i], o.At))
	}
	slices.SortStableFunc(v.Workers, func(a, b Worker) int { return cmp.Compare(b.Tone, a.Tone) })
	for _, s := range o.Waits {
		v.Waits = append(v.Waits, Wait{s.For, Cause(s.For), about(s.Count, s.Sampled), s.Oldest})
	}
	for _, n := range o.Redis {
		v.Servers = append(v.Servers, OfServer("redis", n))
	}
	for _, n := range o.LimitsRedis {
		v.Servers = append(v.Servers, OfServer("limits' redis", n))
	}
	v.Incidents, v.Held = incidents(o, v.Accounts)
	v.Answer = answer(o)
	switch {
	case len(v.Incidents) > 0:
		v.Tone = Wrong
	case len(v.Held) > 0:
		v.Tone = Warns
	}
	if v.Tone != Wrong {
		v.Answer = Say("Nothing is known to be wrong. ", v.Answer)
	}
	return v
}

// about writes a number that may be an estimate.
func about[N int | int64](n N, estimate bool) string {
	if estimate {
		return "about " + Grouped(n)
	}
	return Grouped(n)
}

// answer describes the workers and the number of waiting notifications.
func answer(o *operate.Overview) Sentence {
	workers := ""
	switch n := len(o.Workers); {
	case o.NotRead(operate.PartWorkers) != "":
		workers = "it is not known which workers run, "
	case n > 0: // a missing worker is an incident
		workers = Counted(n, "worker runs, ", "workers run, ")
	}
	waits := Counted(o.Waiting, "notification waits", "notifications wait")
	if o.Sampled {
		waits = "about " + waits
	}
	switch {
	case o.WaitingNotRead() != "":
		waits = "it is not known how many notifications wait"
	case o.Waiting == 0 && o.Sampled:
		waits = "nothing waits that was looked at"
	case o.Waiting == 0:
		waits = "nothing waits"
	}
	if o.Apps != nil {
		waits += " of " + strings.Join(o.Apps, ", ")
	}
	for _, s := range o.Waits {
		if s.For == inspect.ForWorker && !s.Oldest.IsZero() {
			waits += fmt.Sprintf(", %s due, the oldest accepted %s ago", Counted(s.Count, "is", "are"), Span(o.At.Sub(s.Oldest)))
		}
	}
	clauses := []Sentence{Say(workers + waits)}
	if len(o.Workers) > 0 && o.Apps == nil && o.NotRead(operate.PartMinutes) == "" {
		delivered := int64(0)
		for _, m := range o.Minutes {
			delivered += m.Ended[push.Delivered]
		}
		clauses = append(clauses, Say(Counted(delivered, "was", "were")+" delivered in the last 15 minutes"))
	}
	return Clauses(clauses...)
}

// incidents returns the faults, and the pauses in force.
func incidents(o *operate.Overview, a Accounts) (wrong, held []Sentence) {
	add := func(parts ...any) {
		if len(wrong) < mostIncidents {
			wrong = append(wrong, Say(append(parts, ".")...))
		}
	}
	if len(o.Workers) == 0 && o.NotRead(operate.PartWorkers) == "" {
		add(NoWorker)
	}
	for _, n := range slices.Concat(o.Redis, o.LimitsRedis) {
		switch {
		case n.Error != "":
			add("Redis at ", Printable(n.Address), " does not answer", lyingThere(n), ": ", Printable(n.Error))
		case n.Failing != "":
			add("Redis at ", Printable(n.Address), ": ", Printable(n.Failing))
		}
	}
	if o.Lost != nil {
		add(lost(o.Lost))
	}
	silent := int64(0)
	limitsAway := false
	for i := range o.Workers {
		s := &o.Workers[i]
		limitsAway = limitsAway || !s.Limits.Since.IsZero()
		if !s.Pulls && !s.Draining {
			silent++
		}
	}
	if limitsAway {
		add("The limits' Redis does not answer the workers")
	}
	counted := o.NotRead(operate.PartWaits) == ""
	reported := map[string]bool{}
	for i := range o.Pauses {
		p := &o.Pauses[i]
		reported[p.Route()] = true
		switch {
		case PauseTone(p, o.At, counted) == Wrong:
			add(pauseOf(p, o.At, counted))
		case len(held) < mostIncidents:
			held = append(held, pauseOf(p, o.At, counted))
		}
	}
	for i := range o.Providers {
		if p := OfProvider(o, &o.Providers[i]); p.Tone == Wrong && !reported[p.App+"/"+p.Platform] {
			add(p.Name, ", ", p.State, p.Why)
		}
	}
	if silent > 0 {
		add(Counted(silent, "worker gets", "workers get"), " no answer when asking Redis for jobs")
	}
	if a.Tone == Wrong {
		add(a.State)
	}
	for _, u := range o.Unread {
		how := "Not read: "
		if u.Shards != nil {
			how = "Read in part: "
		}
		add(how, u.Part.Words(), " (", Printable(u.Problem), ")")
	}
	return wrong, held
}

// lost describes a loss of data in Redis, and an operator's next steps.
func lost(l *control.Loss) Sentence {
	return Say("Redis has lost data: ", Lost(l), ", noticed ", l.At, ". Send, pause and set again what is still needed, and confirm the loss")
}

// Lost describes the numbers of items that Redis has lost.
func Lost(l *control.Loss) string {
	var parts []string
	if l.Notifications > 0 {
		parts = append(parts, "about "+Counted(l.Notifications, "notification that waited", "notifications that waited"))
	}
	if l.Pauses > 0 {
		parts = append(parts, Counted(l.Pauses, "pause", "pauses"))
	}
	if l.Overrides > 0 {
		parts = append(parts, Counted(l.Overrides, "override or mute", "overrides and mutes"))
	}
	if len(parts) == 0 {
		return "records of notifications that have ended"
	}
	return strings.Join(parts, ", ")
}

// lyingThere names the shards of a Cluster's master, and the number of notifications that wait in
// them.
func lyingThere(n redisconn.Node) Sentence {
	if len(n.Shards) == 0 {
		return nil
	}
	there := Say(", where shards " + Shards(n.Shards) + " lie")
	if len(n.Shards) == 1 {
		there = Say(", where shard " + Shards(n.Shards) + " lies")
	}
	if n.Waiting != nil && !n.WaitingAt.IsZero() {
		there = Say(there, ", and "+Grouped(*n.Waiting)+" waited at ", n.WaitingAt)
	}
	return there
}

// figures returns the main numbers. Only a principal of all apps gets figures of all apps
// together.
func figures(o *operate.Overview) []Figure {
	figure := func(name, value string, unread ...string) Figure {
		if cmp.Or(unread...) != "" {
			return Figure{Name: name, Value: "not read", Tone: Wrong}
		}
		return Figure{Name: name, Value: value}
	}
	all := []Figure{
		figure("Waiting", about(o.Waiting, o.Sampled), o.WaitingNotRead()),
		figure("Dead letters", about(o.Letters.Count, o.Letters.Sampled), o.NotRead(operate.PartLetters)),
	}
	if o.Apps != nil {
		return all
	}
	failed := int64(0)
	for i := range o.Minutes {
		failed += o.Minutes[i].Failed()
	}
	due, drained := "", ""
	if !o.OldestDue.IsZero() {
		due = Span(o.At.Sub(o.OldestDue))
	}
	if o.DrainsIn > 0 {
		drained = Span(o.DrainsIn)
	}
	all = append(all,
		figure("Delivered a minute", Grouped(deliveredAMinute(o)), o.NotRead(operate.PartMinutes)),
		figure("Failed, 15 minutes", Grouped(failed), o.NotRead(operate.PartMinutes)),
		figure("Oldest due", due, o.NotRead(operate.PartOldestDue)),
		figure("Drained in", drained, o.NotRead(operate.PartWaits), o.NotRead(operate.PartMinutes)))
	if p := o.Holding(); p != nil && o.DrainsIn == 0 {
		all[5].Hint = "not while " + subject(p) + " holds some back"
	}
	return all
}

// deliveredAMinute estimates the deliveries of the last 60 s, from the current minute and the
// rest of the previous one.
func deliveredAMinute(o *operate.Overview) int64 {
	minute := o.At.UTC().Truncate(time.Minute)
	var delivered int64
	for i := range o.Minutes {
		switch m := &o.Minutes[i]; {
		case m.At.Equal(minute):
			delivered += m.Ended[push.Delivered]
		case m.At.Equal(minute.Add(-time.Minute)):
			delivered += m.Ended[push.Delivered] * int64(time.Minute-o.At.Sub(minute)) / int64(time.Minute)
		}
	}
	return delivered
}

func letters(l *operate.Letters) (its Letters) {
	if l.Count == 0 {
		return its
	}
	if its.Text = about(l.Count, l.Sampled); int64(l.LookedAt) < l.Count {
		its.Text += ", by the reasons of " + Grouped(l.LookedAt) + " that were looked at"
	}
	if l.Dropped > 0 {
		its.Text += "; " + Counted(l.Dropped, "older one was deleted", "older ones were deleted")
	}
	its.Reasons = Tallies(l.Reasons)
	return its
}

// Tallies returns the counts with their names, the largest first.
func Tallies[K ~string, N int | int64](counts map[K]N) (all []Tally) {
	for name, n := range counts {
		all = append(all, Tally{string(name), int64(n)})
	}
	slices.SortFunc(all, func(a, b Tally) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name)) })
	return all
}

// OfAudit puts an audit into words; a nil audit is unknown.
func OfAudit(a *inspect.Audit) Accounts {
	if a == nil {
		return Accounts{}
	}
	told := Accounts{State: "they balance", Accepted: a.Accepted, InFlight: a.InFlight}
	switch a.Balance() {
	case inspect.Incomplete:
		told.State, told.Tone = "cannot tell: "+store.UnreachableText(a.Unread), Warns
	case inspect.Unbalanced:
		told.Tone = Wrong
		told.State = Counted(a.Difference, "notification counts as waiting, and is on no queue", "notifications count as waiting, and are on no queue")
		if a.Difference < 0 {
			told.State = Counted(-a.Difference, "job is on a queue, and does not count as waiting", "jobs are on a queue, and do not count as waiting")
		}
	}
	return told
}

// OfWorker puts a worker into words.
func OfWorker(s *control.Snapshot, now time.Time) Worker {
	w := Worker{ID: s.ID, Version: s.Version, State: Say("runs"), Started: s.Started}
	if s.LateP99 > 0 {
		w.Late = Span(s.LateP99)
	}
	switch {
	case s.Draining:
		w.State = Say("stops")
	case !s.Pulls:
		w.State, w.Tone = Say("gets no answer when it asks Redis for jobs"), Wrong
	case !s.Limits.Since.IsZero():
		w.State, w.Tone = Say("the limits' Redis is away since ", s.Limits.Since, ": ", Printable(s.Limits.Cause)), Wrong
	}
	for _, m := range s.Minutes {
		if m.At.Equal(now.Truncate(time.Minute)) {
			w.Sent, w.Delivered = m.Sent, m.Ended[push.Delivered]
		}
	}
	return w
}

// OfServer puts a server of Redis into words.
func OfServer(purpose string, n redisconn.Node) Server {
	s := Server{Purpose: purpose, Address: n.Address, Version: n.Version, Shards: Shards(n.Shards), WaitingAt: n.WaitingAt}
	if n.Waiting != nil {
		s.Waiting = Grouped(*n.Waiting)
	}
	if n.Replicas != nil {
		s.Replicas = Grouped(*n.Replicas)
	}
	if n.Error != "" {
		s.State, s.Tone = Say("does not answer: ", Printable(n.Error)), Wrong
		return s
	}
	var parts []Sentence
	if n.Version != "" {
		memory := mebibytes(n.UsedMemory)
		if n.MaxMemory > 0 {
			memory += fmt.Sprintf(" of %s (%d %%)", mebibytes(n.MaxMemory), n.UsedMemory*100/n.MaxMemory)
		}
		saved := Say("nothing saved since its start")
		switch {
		case n.AppendOnly:
			saved = Say("append-only log")
		case !n.LastSave.IsZero():
			saved = Say("last snapshot ", n.LastSave)
		}
		parts = append(parts, Say(memory), saved)
	}
	if n.Failing != "" {
		parts, s.Tone = append(parts, Say(Printable(n.Failing))), Wrong
	}
	if off := n.AheadBy; off.Abs() >= 10*time.Millisecond {
		which := "ahead of"
		if off < 0 {
			which = "behind"
		}
		parts = append(parts, Say("its clock is ", Span(off.Abs()), " "+which+" this machine's"))
	}
	for i, part := range parts {
		s.State = Say(s.State, []string{"", ", "}[min(i, 1)], part)
	}
	return s
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
