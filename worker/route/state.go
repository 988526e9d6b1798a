package route

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/pause"
)

// A state says whether pushes may go to a route's provider. It is open, closed until an instant,
// or trying: one push at a time probes the provider.
//
//	State           Event                                         Next state                                Observer.Closed
//	open, trying    answers show trouble                          closed for openFor                        yes
//	any             the app or most tokens are refused            closed, twice as long as the last time    yes
//	any             answers ask all for a delay                   closed until then, in all workers         yes
//	any             a worker or FCM's other route shares a delay  closed until then                         -
//	closed          its instant comes                             trying                                    -
//	trying          the push works                                open                                      -
//	trying          the push fails                                closed as above, else for openFor         -
//	trying          the push shows nothing                        trying                                    -
//	closed, trying  the credentials change                        trying, unless a shared delay lasts       -
//	closed, trying  an operator resumes it                        trying                                    -
//	any             an operator pauses its app or platform        closed until that ends, then as before    -
//
// Of two closings the one that ends later counts. But a refusal does not prolong a closing that has a
// reason: the refused push was sent before the closing. Each worker detects trouble and refusals by
// itself; only delays are shared. The zero value is open.
type state struct {
	openFor    time.Duration
	onClose    func()      // called when an open route closes; nil for none
	restricted atomic.Bool // closed, trying or paused; if false, Left is 0

	mu      sync.Mutex
	closed  bool // or trying, after the end of the closing
	closing closing
	// probing reports whether a probe is in flight.
	probing bool
	// refusals counts the closings for a refusal since the route was last open.
	refusals int
	// credential is the last fingerprint of the credentials in use.
	credential string
	// operator is an operator's pause of the app or platform; nil for none.
	operator *pause.Pause
}

// A closing is the end and the reason of a closed state; a zero until means that it is over.
type closing struct {
	until  time.Time
	reason providers.Reason // "" for trouble, which evidence describes
	err    string
	shared bool // the provider asked all workers for the delay
}

// OperatorRecheck bounds the wait for a change by an operator without a notification to the
// worker: of credentials, or of a device's limit. docs/architecture.md states it.
const OperatorRecheck = 5 * time.Minute

const (
	// A provider's delay closes the route if it is longer than leastDelay: shorter delays are over before
	// the other workers know of them. It replaces only a closing that ends at least leastDelay earlier,
	// as concurrent answers ask for the same delay.
	leastDelay = time.Second
	// After a failure of the provider itself, a delay up to failureWait may be the sender's own:
	// FCM failures get at least 10 s.
	failureWait = 10 * time.Second
)

// refusedFor returns how long a refusal closes the route: the duration first, doubled for each earlier
// refusal.
func refusedFor(first time.Duration, refusals int) time.Duration {
	return min(first<<min(refusals, 20), OperatorRecheck) // more doublings overflow
}

// closedFor returns how long an outcome closes the route; 0 if the outcome asks for nothing. refusals
// counts the earlier refusals, and first is how long the first one closed the route.
func closedFor(o *providers.Outcome, refusals int, first time.Duration) time.Duration {
	switch {
	case o.Kind == providers.Misconfigured:
		return refusedFor(first, refusals)
	case o.Concerns == providers.ConcernsProvider && o.RetryAfter <= failureWait, o.RetryAfter <= leastDelay:
		return 0
	}
	return o.RetryAfter
}

// lasts reports whether the closing is not over.
func (s *state) lasts(now time.Time) bool { return s.closed && now.Before(s.closing.until) }

// left returns how long the provider side stays closed; 0 if open or trying. While a probe is in flight,
// it is openFor, the length of a closing after a failed probe.
func (s *state) left(now time.Time) time.Duration {
	switch {
	case s.lasts(now):
		return s.closing.until.Sub(now)
	case s.closed && s.probing:
		return s.openFor
	}
	return 0
}

// paused returns how long an operator's pause lasts; 0 without one.
func (s *state) paused(now time.Time) time.Duration {
	if s.operator == nil {
		return 0
	}
	return max(0, s.operator.Left(now))
}

// Left returns how long the route stays closed; 0 if a push may go.
func (r *Route) Left(now time.Time) time.Duration {
	s := &r.state
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.left(now), s.paused(now))
}

// Trying reports whether the route is trying without a probe in flight, so that a probe may go.
func (r *Route) Trying(now time.Time) bool {
	s := &r.state
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed && s.left(now) == 0 && s.paused(now) == 0
}

// isOpen reports whether the provider side is open.
func (s *state) isOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed
}

// Allow asks for one push to the target. If ok, the caller calls done with the Lesson of the push's
// answer. A device token that helped to close the route is no probe until openFor after the closing's end;
// another token may be.
func (r *Route) Allow(t push.Target) (done func(Lesson), ok bool) {
	now, s := time.Now(), &r.state
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.left(now) > 0, s.paused(now) > 0:
		return nil, false
	case !s.closed:
		return func(Lesson) {}, true
	case now.Before(s.closing.until.Add(s.openFor)) && r.evidence.suspects(subjectOf(t, "")):
		return nil, false
	}
	s.probing = true
	return r.probed, true
}

// probed ends a probe.
func (r *Route) probed(l Lesson) {
	if r.state.probed(time.Now(), l) {
		r.evidence.clearTrouble()
	}
}

func (s *state) probed(now time.Time, l Lesson) (opened bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probing = false
	switch {
	case l.shows == fails:
		s.close(now, closing{until: now.Add(s.openFor)})
	case l.shows == works && s.closed && !s.lasts(now):
		opened = true
		s.closed, s.closing, s.refusals = false, closing{}, 0
		s.restricted.Store(s.operator != nil)
	}
	return opened
}

// close closes the route unless it is closed for as long already. During a probe, late failures
// of other pushes do not count.
func (s *state) close(now time.Time, c closing) bool {
	least := s.closing.until
	if s.closing.reason != "" {
		least = least.Add(leastDelay)
	}
	if c.reason == "" && s.probing || s.lasts(now) && (c.reason == "" || c.until.Before(least)) {
		return false
	}
	if !s.closed && s.onClose != nil {
		s.onClose()
	}
	s.closed, s.closing = true, c
	s.restricted.Store(true)
	return true
}

// fail closes the route for an outcome that counts against it. It returns the closing, and
// whether it applies.
func (s *state) fail(now time.Time, o *providers.Outcome, first time.Duration) (c closing, news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	length, refused := closedFor(o, s.refusals, first), o.Kind == providers.Misconfigured
	switch {
	case length == 0:
		c.until = now.Add(s.openFor)
		news = s.close(now, c)
	case refused && s.lasts(now) && s.closing.reason != "": // the push was sent before the closing
	default:
		c = closing{now.Add(length), o.Reason, CauseOf(o.Err), !refused && o.Concerns != providers.ConcernsCredential}
		if news = s.close(now, c); news && refused {
			s.refusals++
		}
	}
	return c, news
}

// follow applies an operator's pause, nil for none, and a shared delay, the zero closing for
// none. It reports whether the delay closes an open route.
func (s *state) follow(now time.Time, operator *pause.Pause, c closing) (news bool) {
	s.mu.Lock()
	s.operator = operator
	s.restricted.Store(s.closed || operator != nil)
	s.mu.Unlock()
	return s.adopt(now, c)
}

// adopt closes the route for a shared delay, the zero closing for none. It reports whether the
// delay closes an open route.
func (s *state) adopt(now time.Time, c closing) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.until.After(now) {
		return false
	}
	wasOpen := !s.closed
	return s.close(now, c) && wasOpen
}

// renew stores the fingerprint of the credentials in use, and reports whether it changed.
func (s *state) renew(credential string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if credential == s.credential {
		return false
	}
	if s.credential = credential; !s.closing.shared {
		s.tryNow()
	}
	return true
}

// resume makes the route trying at once.
func (s *state) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tryNow()
}

func (s *state) tryNow() { s.closing, s.refusals = closing{}, 0 }

func (s *state) inUse() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.credential
}

// stateView is the view of a state for status and log.
type stateView struct {
	state    State
	closing  closing       // zero if it is over
	left     time.Duration // until the next push may go
	refusals int
}

func (s *state) view(now time.Time) stateView {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := stateView{state: Open, left: s.left(now), refusals: s.refusals}
	switch {
	case s.lasts(now):
		k.state, k.closing = Closed, s.closing
	case s.closed:
		k.state = Trying
	}
	return k
}
