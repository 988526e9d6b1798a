package route

import (
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// window is the period in which answers count. It has windowBuckets parts, so that an answer
// counts for up to a twelfth longer or shorter.
const (
	window        = time.Minute
	windowBuckets = 12
)

// evidence holds a route's answers of the last minute, and its current trouble. The zero value has
// neither.
type evidence struct {
	service push.Platform // for the advice on a spike

	mu       sync.Mutex
	buckets  [windowBuckets]bucket
	refusals [classes][]refusal // by class, newest last; one per subject, bounded by the constant many
	streak   [classes]int       // by class: answers since the provider last took or refused a message
	worked   time.Time          // when the provider last took or refused a message
	unsent   subject            // the last subject made up for an unsent push

	// cause is the class of answers that closed the route; silent while the route is open. A further
	// answer of this class confirms the trouble. If adopted, another worker closed the route, and cause is
	// refused: an answer that throttles a device confirms it too.
	cause   class
	adopted bool
	current Trouble
	spike   spike
}

// A subject is a hash of the topic that an answer is about or, without a topic, of the device's
// address.
type subject uint64

func subjectOf(t push.Target, topic string) subject {
	h := fnv.New64a()
	if topic == "" {
		topic = t.Device().Address()
	}
	h.Write([]byte(topic))
	return subject(h.Sum64())
}

// A refusal is the last answer about a subject.
type refusal struct {
	about  subject
	reason providers.Reason
	at     time.Time
}

// A bucket counts the answers of a part of the window.
type bucket struct {
	period int64 // its number since 1970
	counts [classes]int
}

// A Trouble describes a failing provider, as one worker sees it.
type Trouble struct {
	// Reason and Error are from the last failure. Error holds no device token, key or body.
	Reason providers.Reason `json:"reason"`
	Error  string           `json:"error,omitempty"`
	// Since is the first failure's time. Failures is how many of the Answers failed. Both counts include
	// the minute before the trouble.
	Since    time.Time `json:"since"`
	Failures int       `json:"failures"`
	Answers  int       `json:"answers"`
	// Next is when the worker probes the provider again.
	Next time.Time `json:"next,omitzero"`
}

// A Lesson is the meaning of an answer for its route. The zero value means nothing.
type Lesson struct {
	// Trouble means that the answer counts against the route, so that the push spends no attempt.
	Trouble bool
	shows   shows
}

// shows is the result of a probe of a closed route.
type shows int

const (
	unclear shows = iota
	works
	fails
)

// take adds an answer, and returns its meaning for the route. open reports whether the route was
// open.
func (e *evidence) take(now time.Time, o *providers.Outcome, c class, about subject, open bool) Lesson {
	if c == silent {
		return Lesson{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if o.NotSent {
		e.unsent++
		about = e.unsent
	}
	found := e.add(now, o, c, about)
	var l Lesson
	switch {
	case e.spike.on && (c == lost || c == delivered):
		if l.Trouble = e.spike.take(c); !e.spike.on {
			e.clear()
		}
	case open:
		l.Trouble = closes(found)
	default:
		l.Trouble = c == failed || c > message && c == e.cause || c == throttled && e.adopted
		if !l.Trouble && closes(found) { // the trouble has changed
			l.Trouble, e.cause = true, c
		}
	}
	switch {
	case l.Trouble, c == failed:
		l.shows = fails
	case c != refused:
		l.shows = works
	}
	switch {
	case l.Trouble:
		e.blame(now, o, c, &found)
	case e.current.Failures > 0:
		e.current.Answers++
	}
	return l
}

// add counts the answer, and returns the input of closes.
func (e *evidence) add(now time.Time, o *providers.Outcome, c class, about subject) counts {
	period := now.UnixNano() / int64(window/windowBuckets)
	b := &e.buckets[period%windowBuckets]
	if b.period != period {
		*b = bucket{period: period}
	}
	b.counts[c]++
	found := counts{class: c}
	if c <= message {
		e.worked, e.streak = now, [classes]int{}
		return found
	}
	e.streak[c]++
	found.streak = e.streak[c]
	known := slices.DeleteFunc(e.refusals[c], func(r refusal) bool { return r.about == about })
	known = append(known, refusal{about, o.Reason, now})
	e.refusals[c] = newest(known)
	for _, r := range e.refusals[c] {
		if now.Sub(r.at) < window {
			found.spread++
		}
		if r.at.After(e.worked) && (c != refused || r.reason == o.Reason) {
			found.run++
		}
	}
	for i := range e.buckets {
		if b := &e.buckets[i]; period-b.period < windowBuckets {
			found.same += b.counts[c]
			for _, n := range b.counts {
				found.answers += n
			}
		}
	}
	found.final = o.Kind != providers.Misconfigured
	found.calm = now.Sub(e.worked) >= lull
	return found
}

// blame records the answer as the route's trouble.
func (e *evidence) blame(now time.Time, o *providers.Outcome, c class, found *counts) {
	if e.cause == silent {
		e.cause = c
	}
	if c == lost && !e.spike.on {
		e.spike = spike{on: true}
	}
	if c == lost {
		o = new(spikeOf(e.service, *o))
	}
	t := &e.current
	if t.Failures == 0 {
		t.Since, t.Failures, t.Answers = now, found.same-1, found.answers-1
		for _, r := range e.refusals[c] {
			if r.at.After(e.worked) && r.at.Before(t.Since) {
				t.Since = r.at
			}
		}
	}
	t.Failures++
	t.Answers++
	t.Reason, t.Error = o.Reason, CauseOf(o.Err)
}

// trouble returns the route's trouble.
func (e *evidence) trouble() Trouble {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.current
}

// suspects reports whether an answer about the subject helped to close the route.
func (e *evidence) suspects(about subject) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.refusals[e.cause], func(r refusal) bool { return r.about == about })
}

// adoptDelay records that another worker has closed the route for a delay: mostly for a quota, or because
// most devices are throttled.
func (e *evidence) adoptDelay() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cause, e.adopted = refused, true
}

// newest returns the newest refusals, bounded by the constant many.
func newest(all []refusal) []refusal { return all[max(0, len(all)-many):] }

// clearTrouble clears all answers and the trouble after a successful probe. A spike continues, as
// half of its pushes may be delivered.
func (e *evidence) clearTrouble() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.clear()
}

func (e *evidence) clear() {
	e.buckets, e.refusals = [windowBuckets]bucket{}, [classes][]refusal{}
	e.streak, e.cause, e.adopted, e.current = [classes]int{}, silent, false, Trouble{}
}

// reset clears the spike too: the credentials changed or an operator resumed the route.
func (e *evidence) reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.clear()
	e.spike = spike{}
}

// A spike is a period of many lost device tokens. A wrong environment or sender is a likelier cause
// than that all apps were uninstalled, so no token is reported dead. The zero value means no spike.
type spike struct {
	on            bool
	lost, answers int // since it began
}

// take counts a delivery or a lost token, and reports whether it is part of the spike. The spike ends
// when at most half of its answers are lost tokens, and it has at least as many answers as the constant
// many.
func (s *spike) take(c class) bool {
	s.answers++
	if c == lost {
		s.lost++
	}
	if s.answers >= many && 2*s.lost <= s.answers {
		*s = spike{}
	}
	return s.on && c == lost
}

// spikeOf returns the outcome of a lost token that is a part of a spike.
func spikeOf(service push.Platform, o providers.Outcome) providers.Outcome {
	advice := "most tokens are dead, so no token is reported dead: check the app's environment and credentials"
	switch service {
	case push.FCM:
		advice = "most registration tokens are dead, so no token is reported dead: the app may have moved to FIDs, or its credentials are wrong"
	case push.FCMFID:
		advice = "most FIDs are dead, so no FID is reported dead: check that the app registers its FIDs for messages, and the credentials"
	}
	return providers.Outcome{
		Kind: providers.Misconfigured, Reason: providers.DeadTokenSpike, Concerns: providers.ConcernsApp,
		Err: fmt.Errorf("%s: %w", advice, o.Err),
	}
}
