package route

import "github.com/pushpace/pushpace/providers"

// A class groups the answers that mean the same for a route.
type class int

const (
	silent    class = iota // nothing was sent, or the caller gave up
	delivered              // the provider took the push
	message                // this message is refused or cannot go now: the provider works
	lost                   // the token is dead, or its push is refused for good
	throttled              // the device gets too many pushes
	refused                // a key, topic, project or third party is refused, or over its quota
	failed                 // the provider fails, or cannot be reached
	classes                // the number of classes
)

func classOf(o *providers.Outcome) class {
	switch o.Reason {
	case providers.Cancelled, providers.TooLate, providers.OriginBackoff:
		return silent
	}
	ofToken := o.Concerns == providers.ConcernsToken
	ofApp := o.Concerns == providers.ConcernsApp || o.Concerns == providers.ConcernsCredential
	switch o.Kind {
	case providers.Delivered:
		return delivered
	case providers.DeadToken:
		return lost
	case providers.Rejected:
		if ofToken || ofApp {
			return lost
		}
		return message
	case providers.Misconfigured:
		return refused
	case providers.Retry:
		switch {
		case ofToken:
			return throttled
		case ofApp:
			return refused
		case o.Concerns == providers.ConcernsProvider:
			return failed
		}
		return message
	}
	return silent // a panic
}

const (
	// several is how many device tokens with the same answer close a route that has delivered
	// nothing for at least lull. If it were smaller, two bad tokens of a quiet app would close the
	// route.
	several = 3
	lull    = window / 6
	// many is how many device tokens in a row with the same answer, without a delivery, close a
	// route that delivered a moment ago: a burst may have a few bad tokens in turn. As many answers
	// can end a spike of lost tokens.
	many = 20
	// maxStreak is how many failures in a row, without a delivery, close a route. All may be of one
	// device token, because an app may have one device. Each failure spends an attempt of a
	// notification.
	maxStreak = 10
	// most is the number of tokens from which on a majority of the answers counts.
	most = 5
	// minLostAnswers is the number of answers from which on lost tokens can close a route: an old list of
	// tokens has many dead ones.
	minLostAnswers = 100
)

// counts are the input of closes. They include the last answer.
type counts struct {
	class class // of the last answer
	// final reports whether the last answer can end a notification: it spends an attempt, or the
	// token is lost.
	final bool
	// run is the number of different tokens with an answer of that class since the provider last took or
	// refused a message. For refused answers the reason must match too. spread is the number of different
	// tokens with an answer of that class within the window. Both are bounded by the constant many.
	run, spread int
	calm        bool // the provider took or refused no message for lull
	// streak is the number of answers of that class since the provider last took or refused a message.
	streak int
	// same is the number of answers of that class within the window, and answers the number of all.
	same, answers int
}

// closes reports whether the last answer counts against the route. Otherwise it counts against the
// notification's token or topic, and only this notification waits for another attempt.
//
// An answer counts against the route by two rules: several tokens in a row got it without a
// delivery, or most pushes get it. A refused message never counts: one producer's bad messages must
// not delay other messages. A refusal that is not final, such as of a key or topic, counts only by
// the first rule: its notifications wait at no cost, and other notifications may be delivered
// meanwhile. A throttled device counts by the second rule, or if many devices in a row are
// throttled without a delivery.
func closes(c counts) bool {
	between := c.run >= several && c.calm || c.run >= many
	mostly := c.spread >= most && 2*c.same > c.answers
	switch c.class {
	case failed:
		return between || mostly || c.streak >= maxStreak
	case refused:
		return between || mostly && c.final
	case throttled:
		return c.run >= many || mostly
	case lost:
		return mostly && c.spread >= many && c.answers >= minLostAnswers
	}
	return false
}
