package throttle

import (
	"slices"
	"time"

	"github.com/pushpace/pushpace/throttle/quiet"
)

// The script skips quiet hours when it searches for a slot. Go computes them from zones, days and
// the spread, and gives the script a list of intervals.

// A list holds the intervals of quiet hours, in order, in Unix µs by the limiter's clock. nil means
// that no quiet hours apply; an empty list, that none are ahead.
type list []struct{ from, upto int64 }

// intervalsOf converts intervals from Unix s.
func intervalsOf(all []quiet.Interval) list {
	l := make(list, len(all))
	for n, i := range all {
		l[n].from, l[n].upto = time.Unix(i.From, 0).UnixMicro(), time.Unix(i.Upto, 0).UnixMicro()
	}
	return l
}

// opened returns at, or the end of the interval around it.
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

// quietPolicy returns the policy with the request's quiet hours, and its scope; nil without quiet
// hours.
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

// zone returns the notification's own zone, or else the zone of a policy's Night, or else UTC.
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

// ahead returns the closed intervals of the coming days.
func (r *Request) ahead(now time.Time) []quiet.Interval {
	p, _ := r.quietPolicy()
	if p == nil {
		return nil
	}
	return p.Quiet.Ahead(r.zone(), p.Night, r.App, r.User, now.Unix())
}

// closed returns the intervals of ahead as a list for the script.
func (r *Request) closed(now int64) list {
	all := r.ahead(micros(now))
	if all == nil {
		return nil
	}
	return intervalsOf(all)
}

// QuietTime returns how much of the time between two instants is in quiet hours, by the notification's
// own zone.
func (r *Request) QuietTime(from, upto time.Time) (held time.Duration) {
	p, _ := r.quietPolicy()
	if p == nil || r.IgnoreQuiet {
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

// setQuiet sets Quiet, and the scope and rule if the slot is at the end of quiet hours.
func (d *Decision) setQuiet(r *Request, l list) {
	at, now := d.At.UnixMicro(), d.Now.UnixMicro()
	if end := l.opened(now); end > now && !r.IgnoreQuiet {
		d.Quiet = micros(end)
	}
	if at > now && l.endsAt(at) {
		_, d.Scope = r.quietPolicy()
		d.Rule = QuietRule
	}
}

// quietEndTolerance is how long, in µs, after the end of quiet hours a slot still counts as set by
// them: several margins (see Policy.margin). A later slot was set by a limit.
const quietEndTolerance = 20_000

// endsAt reports whether an interval ends at the instant, or at most quietEndTolerance before.
func (l list) endsAt(at int64) bool {
	return slices.ContainsFunc(l, func(i struct{ from, upto int64 }) bool {
		return i.upto <= at && at <= i.upto+quietEndTolerance
	})
}

// until returns the end, in µs, of the first quiet hours between two instants, which are at most a
// day apart; 0 for none.
func (r *Request) until(from, upto int64) int64 {
	p, _ := r.quietPolicy()
	if p == nil || r.IgnoreQuiet {
		return 0
	}
	end := p.Quiet.Until(r.zone(), p.Night, r.App, r.User, micros(from).Unix(), micros(upto).Unix())
	return time.Unix(end, 0).UnixMicro()
}

// closes reports whether quiet hours hold the request within the next second, so that a claim
// would be denied.
func (l *Redis) closes(r *Request) bool {
	if p, _ := r.quietPolicy(); p == nil {
		return false
	}
	now := l.now()
	return r.until(now.UnixMicro(), now.Add(time.Second).UnixMicro()) > 0
}
