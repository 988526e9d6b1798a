// Package providertest is the suite that every providers.Sender passes: a real
// sender, with its real client, against the provider's stand-in.
package providertest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// A StandIn is a provider's stand-in, as the suite needs it.
type StandIn interface {
	// Respond scripts the answers to the next pushes to token.
	Respond(token string, answers ...standin.Answer)
	// Count returns the counts of received pushes.
	Count() standin.Count
	// URL returns the stand-in's URL.
	URL() string
	// Ledger records the pushes that were accepted.
	Ledger() *standin.Ledger
	Close() error
}

// Options are settings of a sender. The zero value is the provider's own.
type Options struct {
	Timeout time.Duration
	// Endpoint is the endpoint to use; empty for the stand-in's URL.
	Endpoint string
	DryRun   bool
}

// A Harness has the facts of one provider that the suite needs. Each case gets its own.
type Harness struct {
	Platform push.Platform
	StandIn  StandIn
	// New returns a sender to the stand-in, which the suite closes.
	New func(t *testing.T, o Options) providers.Sender
	// At returns a sender that sends all of its requests to endpoint. Nil if New's senders do.
	At func(t *testing.T, endpoint string) providers.Sender
	// Token returns the i-th of any number of valid device tokens.
	Token func(i int) string
	// Keys returns the keys of the i-th token; nil if tokens have no keys.
	Keys func(i int) *push.Keys
	// Reasons are the provider's own reasons.
	Reasons []providers.Reason
	// Misconfigured is an answer that says that the app's configuration is wrong, Rejected an
	// answer that refuses the notification for good.
	Misconfigured, Rejected standin.Answer
	// A burst of 300 pushes has at most MostInFlight of them at the provider at once, and leaves
	// at most MostOpen connections.
	MostInFlight, MostOpen int64
	// Secrets are parts of the credentials. No error may hold them, a token or a
	// body.
	Secrets []string
	// Cannot has the cases that do not apply to this provider, each with the reason.
	Cannot map[string]string
}

// target returns the i-th target.
func (h Harness) target(i int) push.Target {
	t := push.Target{Platform: h.Platform, Token: h.Token(i)}
	if h.Keys != nil {
		t.Keys = h.Keys(i)
	}
	return t
}

// common are the reasons that any sender may return.
var common = []providers.Reason{
	providers.OK, providers.DryRun, providers.DialFailed, providers.TimedOut, providers.ConnectionLost,
	providers.Cancelled, providers.TooLate, providers.TLSRefused, providers.Unreadable, providers.Unknown, providers.Invalid,
}

// Test runs the suite, and closes the harnesses that start returns.
func Test(t *testing.T, start func(t *testing.T) Harness) {
	t.Helper()
	declared := start(t)
	if err := declared.StandIn.Close(); err != nil {
		t.Fatal(err)
	}
	for name := range declared.Cannot {
		if !slices.ContainsFunc(cases, func(c testCase) bool { return c.name == name }) {
			t.Fatalf("Cannot names %q, which is no case", name)
		}
	}
	t.Run("cases", func(t *testing.T) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				h := start(t)
				t.Cleanup(func() { _ = h.StandIn.Close() })
				if why, cannot := h.Cannot[c.name]; cannot {
					t.Skip("declared: " + why)
				}
				c.run(&bench{T: t, Harness: h})
			})
		}
	})
	// Last and alone, because goroutines of other tests would count.
	t.Run("Close leaves no goroutine", func(t *testing.T) { testLeaks(t, start) })
}

// A bench runs one case.
type bench struct {
	*testing.T
	Harness
}

// sender returns a sender, and closes it at the end of the case.
func (b *bench) sender(o Options) providers.Sender {
	b.Helper()
	s := b.New(b.T, o)
	Closing(b, s)
	return s
}

// marker is in the body of every notification, and must be in no error.
const marker = "marker-of-a-body"

func notification(id string) *push.Notification {
	return &push.Notification{
		ID: id, App: "app", User: "user", Title: "title " + marker, Body: "body " + marker,
		Data: map[string]string{"key": marker},
	}
}

// send sends to the i-th token and checks the properties of every outcome.
func (b *bench) send(ctx context.Context, s providers.Sender, i int) providers.Outcome {
	b.Helper()
	return b.sendThis(ctx, s, i, notification("id"), providers.Departure{})
}

func (b *bench) sendThis(ctx context.Context, s providers.Sender, i int, n *push.Notification, departure providers.Departure) providers.Outcome {
	b.Helper()
	t := b.target(i)
	o := s.Send(ctx, n, t, departure)
	if o.Kind < providers.Delivered || o.Kind > providers.Misconfigured {
		b.Errorf("kind %d is unknown", o.Kind)
	}
	if !slices.Contains(common, o.Reason) && !slices.Contains(b.Reasons, o.Reason) {
		b.Errorf("reason %q is not among the provider's", o.Reason)
	}
	if (o.Err == nil) != (o.Kind == providers.Delivered) {
		b.Errorf("%v with error %v", o.Kind, o.Err)
	}
	if o.Kind != providers.Retry && (o.Ambiguous || o.RetryAfter != 0) {
		b.Errorf("%v is ambiguous (%v) or has a Retry-After (%v)", o.Kind, o.Ambiguous, o.RetryAfter)
	}
	if o.Err != nil {
		for _, secret := range append([]string{t.Token, marker}, b.Secrets...) {
			if strings.Contains(o.Err.Error(), secret) {
				b.Errorf("the error holds a token, a body or a key: %v", o.Err)
			}
		}
	}
	return o
}

// want checks the kind and the reason. Without reasons, it allows any reason.
func (b *bench) want(o providers.Outcome, kind providers.Kind, reasons ...providers.Reason) {
	b.Helper()
	if o.Kind != kind || len(reasons) > 0 && !slices.Contains(reasons, o.Reason) {
		b.Fatalf("outcome is %v (%s: %v), want %v %v", o.Kind, o.Reason, o.Err, kind, reasons)
	}
}

// wantCounts checks how many pushes came in, and how many were accepted.
func (b *bench) wantCounts(received, accepted int) {
	b.Helper()
	if n := b.StandIn.Count().Received; n != int64(received) {
		b.Errorf("%d pushes came in, want %d", n, received)
	}
	if n := b.StandIn.Ledger().Len(); n != accepted {
		b.Errorf("%d pushes were accepted, want %d", n, accepted)
	}
}
