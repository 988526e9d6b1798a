package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/violations"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// tolerance is for the way of a push to the provider.
const tolerance = 50 * time.Millisecond

// A summary is how the demo ended.
type summary struct {
	Accepted      int64 `json:"accepted"`
	Delivered     int64 `json:"delivered"`
	Undeliverable int64 `json:"undeliverable"`
	Rejected      int64 `json:"rejected"`
	Exhausted     int64 `json:"exhausted"`
	Expired       int64 `json:"expired"`
	Cancelled     int64 `json:"cancelled"`
	Superseded    int64 `json:"superseded"`
	Muted         int64 `json:"muted"`
	Digested      int64 `json:"digested"`
	Waiting       int64 `json:"waiting"`
	Malformed     int64 `json:"malformed"`
	Deferred      int64 `json:"deferred"`    // times one went back to the queue; a near slot is waited for in the worker
	DeadTokens    int64 `json:"dead_tokens"` // answers that say so
	Violations    int   `json:"violations"`
	// ChecksPerDelivery is how often the limiter was asked for each notification
	// delivered that has limits.
	ChecksPerDelivery float64 `json:"checks_per_delivery"`
	// Lateness is how much after its slot a notification that a limit alone held
	// went out.
	Lateness struct {
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
	} `json:"lateness_ms"`
	Seconds float64 `json:"seconds"`

	faults []string // what is not as it has to be
}

func (d *demo) summarize(start time.Time) (summary, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := d.records.Counts(ctx)
	if err != nil {
		return summary{}, err
	}
	received := firstPushes(d.ledger.Entries())
	s := summary{
		Accepted: c.Accepted, Delivered: c.Ended[push.Delivered], Undeliverable: c.Ended[push.Undeliverable],
		Rejected: c.Ended[push.Rejected], Exhausted: c.Ended[push.Exhausted], Expired: c.Ended[push.Expired],
		Cancelled: c.Ended[push.Cancelled], Superseded: c.Ended[push.Superseded], Muted: c.Ended[push.Muted], Digested: c.Ended[push.Digested],
		Waiting: c.Waiting(), Malformed: c.Malformed, Deferred: c.Deferred, DeadTokens: c.DeadTokens,
	}
	var pushes []violations.Push
	limited := 0
	for id, at := range received {
		n := plannedBy(d.mix, id)
		if n == nil {
			s.fault("the stand-ins took a notification that nobody has sent")
			continue
		}
		pushes = append(pushes, violations.Push{App: n.App, User: n.User, Category: n.Category, At: at, Passes: n.Priority == push.Critical})
		if len(d.limits.Scopes(n.App, n.User, n.Category)) > 0 {
			limited++
		}
	}
	for _, v := range violations.Find(pushes, d.cfg.Limits.General(), d.cfg.Limits.Policies(), tolerance) {
		s.Violations++
		s.fault("%s of %s: a notification came %s too soon for %s", v.Scope, v.User, v.Early, v.Rule)
	}
	checks, late := d.watch.read()
	s.Lateness.P50, s.Lateness.P99 = milliseconds(percentile(late, 0.5)), milliseconds(percentile(late, 0.99))
	if limited > 0 {
		s.ChecksPerDelivery = math.Round(float64(checks)/float64(limited)*100) / 100
	}
	s.account(int64(d.taken), int64(len(received)))
	s.Seconds = math.Round(time.Since(start).Seconds()*10) / 10
	return s, nil
}

// account compares the sums with what the Producer and the stand-ins say.
func (s *summary) account(taken, received int64) {
	ended := s.Delivered + s.Undeliverable + s.Rejected + s.Exhausted + s.Expired + s.Cancelled + s.Superseded + s.Muted + s.Digested
	if s.Accepted != taken {
		s.fault("%d notifications count as accepted, but the Producer accepted %d", s.Accepted, taken)
	}
	if s.Accepted != ended+s.Waiting {
		s.fault("%d were accepted, but %d ended and %d wait", s.Accepted, ended, s.Waiting)
	}
	if s.Waiting != 0 {
		s.fault("%d notifications still wait", s.Waiting)
	}
	if s.Delivered != received {
		s.fault("%d count as delivered, but the stand-ins took %d", s.Delivered, received)
	}
	if s.Malformed != 1 {
		s.fault("%d jobs count as malformed, but 1 was", s.Malformed)
	}
}

func (s *summary) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// firstPushes returns when each notification was first taken.
func firstPushes(ledger []standin.Entry) map[string]time.Time {
	first := map[string]time.Time{}
	for _, e := range ledger {
		if at, ok := first[e.Notification]; !ok || e.At.Before(at) {
			first[e.Notification] = e.At
		}
	}
	return first
}

func milliseconds(d time.Duration) float64 {
	return math.Round(float64(d)/float64(time.Millisecond)*10) / 10
}

// print writes the summary for a person.
func (s *summary) print(w io.Writer) error {
	var b strings.Builder
	row := func(name string, n int64, note string) {
		fmt.Fprintf(&b, "%-16s %4d  %s", name, n, note)
		text := strings.TrimRight(b.String(), " ")
		b.Reset()
		b.WriteString(text + "\n")
	}
	b.WriteString("\n")
	row("accepted", s.Accepted, "")
	row("  delivered", s.Delivered, "")
	row("  undeliverable", s.Undeliverable, "every token of the user is dead")
	row("  expired", s.Expired, "its slot is after its end")
	for _, state := range []struct {
		name string
		n    int64
	}{{"rejected", s.Rejected}, {"exhausted", s.Exhausted}, {"cancelled", s.Cancelled}, {"superseded", s.Superseded}, {"muted", s.Muted}, {"digested", s.Digested}} {
		if state.n > 0 {
			row("  "+state.name, state.n, "")
		}
	}
	row("  waiting", s.Waiting, "")
	row("malformed", s.Malformed, "a job that could not be read, kept as a dead letter")
	row("deferred", s.Deferred, "times one went back to the queue for exactly the time left; who waits less than worker.max_wait stays in the worker")
	row("dead tokens", s.DeadTokens, "")
	row("violations", int64(s.Violations), fmt.Sprintf("of any limit, by when they arrived (± %s on the way)", tolerance))
	fmt.Fprintf(&b, "%-16s %4.2g  of the limits for each delivery\n", "checks", s.ChecksPerDelivery)
	fmt.Fprintf(&b, "%-16s %4.0f  ms at most for 99 of 100 that waited, %.1f ms for half, after their instant\n", "lateness", s.Lateness.P99, s.Lateness.P50)
	fmt.Fprintf(&b, "%-16s %4.0f  s\n", "time", s.Seconds)
	_, err := io.WriteString(w, b.String())
	return err
}
