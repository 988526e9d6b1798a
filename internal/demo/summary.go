package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/violations"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker"
)

// busy is the longest time without a processor on a machine that is not busy.
const busy = 50 * time.Millisecond

// lateness is a worker.Observer that records how late a notification leaves, if only a limit held
// it.
type lateness struct {
	worker.NopObserver

	mu  sync.Mutex
	all []time.Duration
}

// Paced implements worker.Observer.
func (l *lateness) Paced(late time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, late)
}

// at returns the quantile of the lateness in ms for a share above 0 and up to 1; 0 without
// notifications.
func (l *lateness) at(share float64) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.all)
	return rounded(violations.Within(l.all, share).Seconds() * 1000)
}

// rounded rounds to a tenth.
func rounded(x float64) float64 { return math.Round(x*10) / 10 }

// A summary is the demo's result.
type summary struct {
	counts     store.Counts
	lost       int64
	violations int
	p50, p99   float64       // lateness in ms
	latest     float64       // the greatest lateness in ms
	way        time.Duration // the longest time from an admission to the provider
	stood      time.Duration // the longest time for which the process got no processor
	seconds    float64
	faults     []string // what is wrong, a line each
}

func (d *demo) summarize(start time.Time) (*summary, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := d.Records.Counts(ctx)
	if err != nil {
		return nil, err
	}
	first := map[string]time.Time{} // by ID, when a stand-in first took the notification
	s := &summary{counts: c, p50: d.late.at(0.5), p99: d.late.at(0.99), latest: d.late.at(1), stood: time.Duration(d.stood.Load()), seconds: rounded(time.Since(start).Seconds())}
	for _, e := range d.ledger.Entries() {
		if !slices.ContainsFunc(d.mix, func(p planned) bool { return p.n.ID == e.Notification }) {
			s.fault("a stand-in took the notification %q, which the demo has not enqueued", e.Notification)
			continue
		}
		if at, ok := first[e.Notification]; !ok || e.At.Before(at) {
			first[e.Notification] = e.At
		}
	}
	admitted, err := d.Admissions(ctx, demoApp, demoUsers)
	if err != nil {
		return nil, err
	}
	policies := d.cfg.Limits.Policies()
	var pushes []violations.Push
	for i := range d.mix {
		n := &d.mix[i].n
		arrived, ok := first[n.ID]
		if !ok || policies[n.Category].Exempt {
			continue
		}
		at, ok := admitted[n.ID]
		if !ok {
			s.violations++
			s.fault("%q was sent without an admission by its limits", n.ID)
			continue
		}
		s.way = max(s.way, arrived.Sub(at))
		pushes = append(pushes, violations.Push{App: n.App, User: n.User, Category: n.Category, At: at, Passes: n.Priority == push.Critical})
	}
	s.account(int64(d.taken), int64(len(first)))
	for _, v := range violations.Find(pushes, d.cfg.Limits.General(), policies, 0) {
		s.violations++
		s.fault("%s of %s: a notification was admitted %s too soon for %s", v.Scope, v.User, v.Early, v.Rule)
	}
	return s, nil
}

// account compares the counts in Redis with the counts of the Producer and the stand-ins. An
// accepted notification is lost if no stand-in took it and it neither waits nor ended otherwise.
func (s *summary) account(taken, received int64) {
	c := s.counts
	s.lost = taken - received - (c.Accepted - c.Ended[push.Delivered])
	for _, sum := range []struct {
		got, want int64
		what      string
	}{
		{c.Accepted, taken, "notifications count as accepted"}, {c.Ended[push.Delivered], received, "notifications count as delivered"},
		{c.Waiting(), 0, "notifications still wait"}, {c.Malformed, 1, "jobs count as malformed"},
	} {
		if sum.got != sum.want {
			s.fault("%d %s, want %d", sum.got, sum.what, sum.want)
		}
	}
}

func (s *summary) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// MarshalJSON implements json.Marshaler.
func (s *summary) MarshalJSON() ([]byte, error) {
	all := map[string]any{
		"accepted": s.counts.Accepted, "waiting": s.counts.Waiting(), "malformed": s.counts.Malformed, "deferred": s.counts.Deferred, "dead_tokens": s.counts.DeadTokens,
		"violations": s.violations, "lost": s.lost, "lateness_ms": map[string]float64{"p50": s.p50, "p99": s.p99}, "way_ms": rounded(s.way.Seconds() * 1000), "seconds": s.seconds,
	}
	for _, state := range store.EndStates {
		all[string(state)] = s.counts.Ended[state]
	}
	return json.Marshal(all)
}

// print writes the summary for a person.
func (s *summary) print(w io.Writer) error {
	c := s.counts
	machine := ""
	if s.stood > busy {
		machine = fmt.Sprintf("this machine is busy: the demo stood still for up to %d ms, and what was due meanwhile is late\n", s.stood.Milliseconds())
	}
	_, err := fmt.Fprintf(w, `
accepted %d: %d undeliverable as every token of the user is dead, %d expired before its slot, %d waiting
malformed %d: a job that could not be read, kept as a dead letter
of those that waited for a limit half left within %.1f ms of their slot, the latest %.0f ms; %.0f ms at most to the provider
%sdelivered %d, %d limits broken, %d lost, in %.0f s
`, c.Accepted, c.Ended[push.Undeliverable], c.Ended[push.Expired], c.Waiting(), c.Malformed, s.p50, s.latest, s.way.Seconds()*1000, machine, c.Ended[push.Delivered], s.violations, s.lost, s.seconds)
	return err
}
