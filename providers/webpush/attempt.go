package webpush

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// maxResponseBody bounds the bytes read of a response's body.
const maxResponseBody = 4 << 10

// attempt makes the single request of a push. It calls connected once there is a connection.
func (s *Sender) attempt(ctx context.Context, to subscription, message push.WebPushMessage, departure providers.Departure, connected func()) providers.Outcome {
	sealed, signed, failed := s.prepare(to, message)
	if failed != nil {
		return *failed
	}
	body := providers.NewBody(departure, sealed, connected)
	transport := s.transport
	if to.service == push.WebPushOther {
		transport = s.strangersTransport
	}
	response, err := providers.TraceRequest(body.Sent(s.request(ctx, to, message, signed)), transport.RoundTrip)
	switch {
	case body.Late():
		if err == nil {
			_ = response.Body.Close()
		}
		return providers.TooLateOutcome()
	case err != nil:
		return unansweredOutcome(ctx, to, err, body.Wrote())
	}
	// A truncated body only loses the reason.
	reply, _ := io.ReadAll(io.LimitReader(response.Body, maxResponseBody))
	_ = response.Body.Close()
	a := readAnswer(to.service, to.host, response.StatusCode, response.Header, reply, time.Now())
	return s.applyAnswer(to, a, signed)
}

// prepare encrypts the message and gets the VAPID token for its service.
func (s *Sender) prepare(to subscription, message push.WebPushMessage) (sealed []byte, signed *token, failed *providers.Outcome) {
	sealed, err := encrypt(message.Payload, to.receiver)
	if err == nil {
		signed, err = s.tokens.get(to.origin(), time.Now())
	}
	if err != nil {
		return nil, nil, &providers.Outcome{
			Kind: providers.Rejected, Reason: providers.Invalid, Concerns: providers.ConcernsMessage, Err: fmt.Errorf("encrypt and sign: %w", err),
		}
	}
	return sealed, signed, nil
}

// rehearse prepares a message without sending it.
func (s *Sender) rehearse(ctx context.Context, to subscription, message push.WebPushMessage) providers.Outcome {
	if err := ctx.Err(); err != nil {
		return notSentOutcome(err)
	}
	if _, _, failed := s.prepare(to, message); failed != nil {
		return *failed
	}
	return providers.Outcome{Kind: providers.Delivered, Reason: providers.DryRun}
}

// request returns the request without its body. Source: RFC 8030, section 5; RFC 8291,
// section 4.
func (s *Sender) request(ctx context.Context, to subscription, message push.WebPushMessage, signed *token) *http.Request {
	header := http.Header{
		"Authorization":    {signed.authorization},
		"Content-Encoding": {"aes128gcm"},
		"Content-Type":     {"application/octet-stream"},
		"Ttl":              {strconv.Itoa(message.TTL)},
		"Urgency":          {message.Urgency},
	}
	if message.Topic != "" {
		header["Topic"] = []string{message.Topic}
	}
	if to.service == push.WebPushWindows {
		// By default Windows drops a message that it cannot deliver at once.
		header["X-Wns-Cache-Policy"] = []string{"cache"}
	}
	u := *to.url
	if s.endpoint != nil {
		u.Host = s.endpoint.Host
	}
	return (&http.Request{Method: http.MethodPost, URL: &u, Host: to.host, Header: header}).WithContext(ctx)
}

// applyAnswer returns the outcome of an answer, and updates the state of the key and the VAPID
// token.
func (s *Sender) applyAnswer(to subscription, a answer, signed *token) providers.Outcome {
	at := s.peers[to.service] // nil for a stranger
	if a.Mismatch {
		delivered, wrong := at.proof.addMismatch(to.url.String(), time.Now())
		return mismatchOutcome(a, delivered, wrong)
	}
	a.KeyWorked = at != nil && at.proof.hasDelivered()
	o := classify(a)
	switch {
	case o.Reason == Unauthorized:
		s.tokens.markRefused(to.origin(), signed, time.Now())
	case o.Kind == providers.Delivered && !signed.worked.Load():
		signed.worked.Store(true)
		if at != nil {
			at.proof.markDelivered()
		}
	}
	return o
}

// unansweredOutcome returns the outcome of a request without a response.
func unansweredOutcome(ctx context.Context, to subscription, err error, wrote bool) providers.Outcome {
	if isGuardError(err) {
		o := providers.Outcome{
			Kind: providers.Rejected, Reason: EndpointRefused, Concerns: providers.ConcernsToken, NotSent: true,
			Err: fmt.Errorf("%s has an address that is not public", to.host),
		}
		if to.service != push.WebPushOther { // a known service: this machine's DNS is wrong
			o.Kind, o.Concerns = providers.Retry, providers.ConcernsProvider
		}
		return o
	}
	if ended := ctx.Err(); ended != nil { // a transport may wrap it in its own error
		err = ended
	}
	o := providers.TransportOutcome(err)
	o.Ambiguous = o.Ambiguous && wrote
	if to.service == push.WebPushOther {
		return strangerOutcome(o)
	}
	return o
}

// strangerOutcome restricts an outcome at an unknown host: the host's failure concerns only its own
// subscriptions.
func strangerOutcome(o providers.Outcome) providers.Outcome {
	if o.Kind == providers.Misconfigured {
		o.Kind = providers.Retry
	}
	if o.Concerns > providers.ConcernsToken {
		o.Concerns = providers.ConcernsToken
	}
	return o
}

// notSentOutcome returns the outcome of a push that ended with err while it waited.
func notSentOutcome(err error) providers.Outcome {
	o := providers.TransportOutcome(err)
	o.Ambiguous = false
	return o
}
