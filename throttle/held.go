package throttle

import (
	"slices"
	"time"

	"github.com/pushpace/pushpace/throttle/quiet"
)

// Quiet hours are one more thing that a search for a place jumps over. Zones, days and the
// spread stay in Go: the script has lists of instants alone.

// A list is what is closed for the user by quiet hours, in Unix µs by the limiter's clock and in
// order. nil says nothing, an empty one that nothing is.
type list []struct{ from, upto int64 }

// listOf returns the intervals, which are in Unix s.
func listOf(all []quiet.Interval) list {
	l := make(list, len(all))
	for n, i := range all {
		l[n].from, l[n].upto = time.Unix(i.From, 0).UnixMicro(), time.Unix(i.Upto, 0).UnixMicro()
	}
	return l
}

// opened returns that instant, or the end of the interval around it.
func (l list) opened(at int64) int64 {
	for _, i := range l {
		if at < i.from {
			break
		}
		if at < i.upto {
			return i.upto
		}
	}
	return at
}

// quietPolicy is the one whose quiet hours hold for the request, and the name of its scope, or
// nil where none do.
func (r *Request) quietPolicy() (p *Policy, scope string) {
	for i := range r.Scopes {
		if s := &r.Scopes[i]; s.Policy.Quiet != nil {
			p, scope = &s.Policy, s.Name
		}
	}
	if p != nil && len(p.Quiet) == 0 {
		p = nil
	}
	return p, scope
}

// zone is the one that the notification is of by itself.
func (r *Request) zone() *time.Location {
	if r.Zone != nil {
		return r.Zone
	}
	for i := range r.Scopes {
		if in := r.Scopes[i].Policy.Night.Zone; in != nil {
			return in
		}
	}
	return time.UTC
}

// ahead is what quiet hours close to the request in the days ahead.
func (r *Request) ahead(now time.Time) []quiet.Interval {
	p, _ := r.quietPolicy()
	if p == nil {
		return nil
	}
	return p.Quiet.Ahead(r.zone(), p.Night, r.App, r.User, now.Unix())
}

// closed is ahead at that instant, for the script.
func (r *Request) closed(now int64) list {
	all := r.ahead(micros(now))
	if all == nil {
		return nil
	}
	return listOf(all)
}

// Held is how much of the time from an instant up to another quiet hours hold the
// notification, by its own zone.
func (r *Request) Held(from, upto time.Time) (held time.Duration) {
	p, _ := r.quietPolicy()
	if p == nil || r.Passes {
		return 0
	}
	for _, i := range p.Quiet.Between(r.zone(), p.Night, r.App, r.User, from.Unix(), upto.Unix()) {
		begins, ends := time.Unix(i.From, 0), time.Unix(i.Upto, 0)
		if begins.Before(from) {
			begins = from
		}
		if upto.Before(ends) {
			ends = upto
		}
		held += max(0, ends.Sub(begins))
	}
	return held
}

// quietly says what quiet hours have to do with the decision.
func (d *Decision) quietly(r *Request, l list) {
	at, now := d.At.UnixMicro(), d.Now.UnixMicro()
	if end := l.opened(now); end > now && !r.Passes {
		d.Quiet = micros(end)
	}
	if at > now && l.endsAt(at) {
		_, d.Scope = r.quietPolicy()
		d.Rule = QuietRule
	}
}

// nightSlack is how far, in µs, behind the end of quiet hours a slot is still said to wait for it:
// several margins (see Policy.margin), and a slot further behind waits for a limit.
const nightSlack = 20_000

// endsAt reports whether an interval ends at the instant, or just before.
func (l list) endsAt(at int64) bool {
	return slices.ContainsFunc(l, func(i struct{ from, upto int64 }) bool {
		return i.upto <= at && at <= i.upto+nightSlack
	})
}

// until returns the end of the first quiet hours that hold the request in the time from an
// instant to another, at most a day later, in µs; 0 where none do.
func (r *Request) until(from, upto int64) int64 {
	p, _ := r.quietPolicy()
	if p == nil || r.Passes {
		return 0
	}
	end := p.Quiet.Until(r.zone(), p.Night, r.App, r.User, micros(from).Unix(), micros(upto).Unix())
	return time.Unix(end, 0).UnixMicro()
}

// closes reports whether quiet hours hold the request within a second, so that a claim would be
// in vain.
func (l *Redis) closes(r *Request) bool {
	if p, _ := r.quietPolicy(); p == nil {
		return false
	}
	now := l.now()
	return r.until(now.UnixMicro(), now.Add(time.Second).UnixMicro()) > 0
}
