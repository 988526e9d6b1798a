// Package providers defines the Sender, which each push service implements, and the Outcome of one
// attempt to send. Start with Sender. A sender of your own needs only Sender, Outcome with its Kind,
// Reason and Concern, Departure.Start and TooLateOutcome. The rest serves the senders for APNs, FCM
// and Web Push: connections, proxies, and the instant at which a push departs.
package providers

import (
	"context"
	"time"

	"github.com/pushpace/pushpace/push"
)

// A Sender sends notifications of one app to one push service. It is safe for
// concurrent use.
type Sender interface {
	// Send renders n for the target t and makes one attempt. It returns within the context's
	// deadline. It never retries by itself. Just before the push leaves, Send calls
	// departure.Start. If Start returns false, Send sends nothing and returns TooLateOutcome.
	Send(ctx context.Context, n *push.Notification, t push.Target, departure Departure) Outcome
	// Close releases the connections.
	Close() error
}

// An Outcome is the result of one attempt to send to one target. The zero value is
// invalid.
type Outcome struct {
	Kind Kind
	// Reason is from a closed set, fit for a metric's label.
	Reason Reason
	// RetryAfter is the delay the provider asked for, or 0. For Retry only.
	RetryAfter time.Duration
	// Ambiguous is true if the provider may have taken the notification without an answer. For
	// Retry only.
	Ambiguous bool
	// Concerns is the scope of the failure; NoConcern for Delivered.
	Concerns Concern
	// Topic is the topic that the answer concerns, if only some of the app's pushes have it;
	// otherwise "".
	Topic string
	// ProviderID is the provider's ID of the accepted notification: the apns-id,
	// FCM's message name, or a Web Push service's message ID.
	ProviderID string
	// Since is the instant at which APNs knew the token to be dead; zero if it
	// did not say.
	Since time.Time
	// NotSent is true if certainly nothing was sent: the attempt cost the provider nothing.
	NotSent bool
	// Err describes the cause for people. It holds no token, key or body. It is nil for Delivered.
	Err error
}

// A Kind is the class of an Outcome. It decides the next action.
type Kind uint8

// The kinds of outcome.
const (
	// Delivered: the provider took the push.
	Delivered Kind = iota + 1
	// DeadToken: the token or FID will never work again; report it to the producer.
	DeadToken
	// Retry: not now; the same request may succeed later.
	Retry
	// Rejected: the same request can never succeed.
	Rejected
	// Misconfigured: the app's configuration is wrong; nothing of this app will succeed until an
	// operator corrects it.
	Misconfigured
)

// String returns the kind's name in logs and metrics.
func (k Kind) String() string {
	switch k {
	case Delivered:
		return "delivered"
	case DeadToken:
		return "dead_token"
	case Retry:
		return "retry"
	case Rejected:
		return "rejected"
	case Misconfigured:
		return "misconfigured"
	}
	return "unknown"
}

// A Concern is the scope of a failure.
type Concern uint8

// The concerns.
const (
	NoConcern Concern = iota
	// ConcernsMessage: this notification only.
	ConcernsMessage
	// ConcernsToken: this device only.
	ConcernsToken
	// ConcernsCredential: everything sent with the same key or certificate.
	ConcernsCredential
	// ConcernsApp: everything of this app on this platform.
	ConcernsApp
	// ConcernsProvider: everything sent to this push service.
	ConcernsProvider
)
