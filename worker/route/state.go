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
// or trying, when one push at a time shows whether the provider takes it:
//
//	State           Event                                   Next state                                Observer.Closed
//	open, trying    answers show trouble                    closed for openFor                        yes
//	any             the app or most tokens are refused      closed, twice as long as the last time    yes
//	any             answers ask all for a delay             closed until then, in all workers         yes
//	any             another worker shares a delay           closed until then                         -
//	closed          its instant comes                       trying                                    -
//	trying          the push works                          open                                      -
//	trying          the push fails                          closed as above, else for openFor         -
//	trying          the push shows nothing                  trying                                    -
//	closed, trying  the credentials change                  trying, unless a shared delay lasts       -
//	closed, trying  an operator resumes it                  trying                                    -
//	any             an operator pauses its app or platform  closed until that ends, then as before    -
//
// Of two closings the one that ends later stands, but a refusal does not prolong a closing that
// has a reason: it answers a push from before. Each worker finds out about trouble and refusals
// by itself; only delays are shared. The zero value is open.
type state struct {
	openFor time.Duration
	closes  func()      // an open one is closed; nil for nothing to be done
	apart   atomic.Bool // it is closed or trying, or an operator pauses it: else Left is 0

	mu      sync.Mutex
	closed  bool // or trying, after the end of the closing
	closing closing
	// probing says that the push is under way that shows whether the provider takes it.
	probing bool
	// refusals counts the closings for a refusal since it was open.
	refusals int
	// credential is the fingerprint of the credentials in use, as it was read last.
	credential string
	// operator is an operator's pause of the app or platform; nil for none.
	operator *pause.Pause
}

// A closing is why a route is closed, and until when; zero means until now.
type closing struct {
	until  time.Time
	reason providers.Reason // "" for trouble, which evidence describes
	err    string
	shared bool // the provider has asked all workers for it
}

// Longest bounds the wait for a change that an operator has to make, and of which nobody notifies
// the worker: of credentials, or of a device's limit. docs/architecture.md states it.
const Longest = 5 * time.Minute

const (
	// A delay that a provider asks for is a closing when it is longer than leastDelay: shorter
	// ones are over before the other workers know. It takes the place of one that ends
	// leastDelay sooner: answers that come together ask for the same.
	leastDelay = time.Second
	// After a failure of the provider itself, up to failureWait may be the sender's own: FCM's
	// answers are given at least 10 s.
	failureWait = 10 * time.Second
)

// refusedFor is how long a refusal closes it, after so many before: twice as long each time.
func refusedFor(first time.Duration, refusals int) time.Duration {
	return min(first<<min(refusals, 20), Longest) // more doublings overflow
}

// closedFor is how long an outcome that is the route's trouble closes it; 0 where it asks for
// nothing. refusals counts the closings before, and first is the length of the first of them.
func closedFor(o *providers.Outcome, refusals int, first time.Duration) time.Duration {
	switch {
	case o.Kind == providers.Misconfigured:
		return refusedFor(first, refusals)
	case o.Concerns == providers.ConcernsProvider && o.RetryAfter <= failureWait, o.RetryAfter <= leastDelay:
		return 0
	}
	return o.RetryAfter
}

// lasts reports whether a closing is not over yet.
func (s *state) lasts(now time.Time) bool { return s.closed && now.Before(s.closing.until) }

// left is how long the provider's side keeps it closed; 0 when it is open, or trying. While a push
// shows whether it works, that is as long as one that fails closes it.
func (s *state) left(now time.Time) time.Duration {
	switch {
	case s.lasts(now):
		return s.closing.until.Sub(now)
	case s.closed && s.probing:
		return s.openFor
	}
	return 0
}

// paused is how long an operator's pause lasts; 0 when there is none.
func (s *state) paused(now time.Time) time.Duration {
	if s.operator == nil {
		return 0
	}
	return max(0, s.operator.Left(now))
}

// Left is how long the route is closed; 0 when a push may go.
func (r *Route) Left(now time.Time) time.Duration {
	s := &r.state
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.left(now), s.paused(now))
}

// Trying reports whether the route is trying and no push is under way, so that one may go.
func (r *Route) Trying(now time.Time) bool {
	s := &r.state
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed && s.left(now) == 0 && s.paused(now) == 0
}

// isOpen reports whether the provider's side has it open.
func (s *state) isOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed
}

// Allow asks for one push to the target. If it may go, the caller calls done with the Lesson
// of its answer. A token that has closed the route does not show whether it works, unless no
// other has asked for openFor.
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

// probed ends the push of a trying route.
func (r *Route) probed(l Lesson) {
	if r.state.probed(time.Now(), l) {
		r.evidence.forget()
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
		s.apart.Store(s.operator != nil)
	}
	return opened
}

// close closes it, unless it is closed for as long. While a push is under way that shows whether
// the provider works, late failures of others do not count.
func (s *state) close(now time.Time, c closing) bool {
	least := s.closing.until
	if s.closing.reason != "" {
		least = least.Add(leastDelay)
	}
	if c.reason == "" && s.probing || s.lasts(now) && (c.reason == "" || c.until.Before(least)) {
		return false
	}
	if !s.closed && s.closes != nil {
		s.closes()
	}
	s.closed, s.closing = true, c
	s.apart.Store(true)
	return true
}

// fail closes it for an outcome that is the route's trouble. It returns the closing, and whether
// it stands.
func (s *state) fail(now time.Time, o *providers.Outcome, first time.Duration) (c closing, news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	length, refused := closedFor(o, s.refusals, first), o.Kind == providers.Misconfigured
	switch {
	case length == 0:
		c.until = now.Add(s.openFor)
		news = s.close(now, c)
	case refused && s.lasts(now) && s.closing.reason != "": // a push from before
	default:
		c = closing{now.Add(length), o.Reason, CauseOf(o.Err), !refused && o.Concerns != providers.ConcernsCredential}
		if news = s.close(now, c); news && refused {
			s.refusals++
		}
	}
	return c, news
}

// follow takes over an operator's pause, nil for none, and the delay that is shared, the zero
// closing for none. It reports whether that closes an open route.
func (s *state) follow(now time.Time, operator *pause.Pause, c closing) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.operator = operator
	s.apart.Store(s.closed || operator != nil)
	if !c.until.After(now) {
		return false
	}
	wasOpen := !s.closed
	return s.close(now, c) && wasOpen
}

// renew notes which credentials are in use, and reports whether they are others.
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

// resume has it tried at once.
func (s *state) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tryNow()
}

func (s *state) tryNow() { s.closing, s.refusals = closing{}, 0 }

// inUse returns the fingerprint of the credentials in use.
func (s *state) inUse() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.credential
}

// known is what the status and the log report of a state.
type known struct {
	state    BreakerState
	closing  closing       // zero unless it lasts
	left     time.Duration // until the provider gets a push
	refusals int
}

func (s *state) known(now time.Time) known {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := known{state: BreakerClosed, left: s.left(now), refusals: s.refusals}
	switch {
	case s.lasts(now):
		k.state, k.closing = BreakerOpen, s.closing
	case s.closed:
		k.state = BreakerHalfOpen
	}
	return k
}
