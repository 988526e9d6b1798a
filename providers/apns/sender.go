// Package apns sends notifications through Apple's push service, with
// sideshow/apns2 as its client.
package apns

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sideshow/apns2"

	"github.com/pushpace/pushpace/internal/base/filewatch"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// A Sender sends one app's notifications to one environment of APNs. It
// implements providers.Sender. Close it to release its connections.
type Sender struct {
	config      Config
	http        *http.Client
	connections *connections
	timeout     time.Duration

	credential atomic.Pointer[credential]
	reloading  sync.Mutex
	onReload   atomic.Pointer[func(error)]
	watching   sync.WaitGroup
}

var _ providers.Sender = (*Sender)(nil)

// New returns the Sender of a configuration. It reads the files and opens no connection. An error
// names the faulty key of the configuration.
func New(c Config) (*Sender, error) { return newSender(c, filewatch.Interval) }

func newSender(c Config, interval time.Duration) (*Sender, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	watch := filewatch.New(c.KeyFile, c.CertificateFile, c.PasswordFile)
	roots, err := loadRoots(c)
	if err != nil {
		return nil, err
	}
	proxy, err := providers.EnvironmentProxy()
	if err != nil {
		return nil, err
	}
	s := &Sender{config: c, timeout: c.timeout()}
	s.connections, err = newConnections(c.host(), &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: roots, GetClientCertificate: s.certificate,
	}, proxy)
	if err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	s.http = &http.Client{
		Transport: observed{s.connections},
		// APNs does not redirect. A server that redirects must not get the notification.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	first, err := loadCredential(c, s.http)
	if err != nil {
		s.connections.close()
		return nil, err
	}
	s.credential.Store(first)
	s.watching.Go(func() { watch.Run(s.connections.ctx, interval, s.reload) })
	return s, nil
}

// certificate returns the client certificate of a new connection.
func (s *Sender) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if c := s.credential.Load().certificate; c != nil {
		return c, nil
	}
	return &tls.Certificate{}, nil
}

// Send implements providers.Sender. The attempt ends after the configured timeout, or at the
// context's deadline if that is earlier. With DryRun, Send neither connects nor sends.
func (s *Sender) Send(ctx context.Context, n *push.Notification, t push.Target, departure providers.Departure) providers.Outcome {
	m, err := n.RenderAPNs(t)
	if err != nil {
		return providers.Outcome{Kind: providers.Rejected, Reason: providers.Invalid, Concerns: providers.ConcernsMessage, Err: err}
	}
	if !isHex(t.Token) {
		// APNs disconnects senders of many malformed tokens.
		return classify(answer{status: http.StatusBadRequest, readable: true, reason: string(BadDeviceToken)})
	}
	c := s.credential.Load()
	if s.config.DryRun {
		return s.rehearse(ctx, c)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	x := &exchange{payload: m.Payload, departure: departure}
	response, err := c.client.PushWithContext(x.with(ctx), &apns2.Notification{
		ApnsID:      m.ID,
		CollapseID:  m.CollapseID,
		DeviceToken: t.Token,
		Topic:       s.config.Topic + m.TopicSuffix,
		Expiration:  m.Expiration,
		Priority:    m.Priority,
		PushType:    apns2.EPushType(m.PushType),
		Payload:     "{}", // the exchange carries the payload
	})
	if x.status == 0 {
		return unanswered(err)
	}
	a := answer{status: x.status, id: x.id, retryAfter: x.retryAfter}
	if err == nil {
		a.readable, a.reason, a.since = true, response.Reason, response.Timestamp.Time
	}
	o := s.react(classify(a), c, x)
	if m.TopicSuffix != "" && concernsTopic(o.Reason) {
		o.Topic = s.config.Topic + m.TopicSuffix
	}
	return o
}

// rehearse checks the credential, for a dry run without a connection.
func (s *Sender) rehearse(ctx context.Context, c *credential) providers.Outcome {
	ended := ctx.Err()
	if s.connections.ctx.Err() != nil {
		ended = errSenderClosed
	}
	switch {
	case ended != nil:
		return unanswered(&unsentError{ended})
	case c.key != nil && c.client.Token.GenerateIfExpired() == "":
		return classify(answer{status: http.StatusForbidden, readable: true, reason: string(MissingProviderToken)})
	case c.certificate != nil && time.Now().After(c.certificate.Leaf.NotAfter):
		return classify(answer{status: http.StatusForbidden, readable: true, reason: string(BadCertificate)})
	}
	return providers.Outcome{Kind: providers.Delivered, Reason: providers.DryRun}
}

// unanswered returns the outcome of a push without an answer.
func unanswered(err error) providers.Outcome {
	unsent := (*unsentError)(nil)
	if !errors.As(err, &unsent) {
		return providers.TransportOutcome(err)
	}
	o := providers.TransportOutcome(unsent.cause)
	if o.Reason == providers.ConnectionLost {
		o.Err = errors.New("APNs closed the connection before it took the notification")
	}
	o.Ambiguous = false
	return o
}

// react changes the credential and the connection as the answer requires.
func (s *Sender) react(o providers.Outcome, c *credential, x *exchange) providers.Outcome {
	if o.Kind == providers.Retry && o.Concerns == providers.ConcernsToken && x.retryAfter == 0 {
		// The jitter spreads the retries of pushes that were refused together.
		o.RetryAfter += rand.N(sameTokenInterval)
	}
	switch o.Reason {
	case ExpiredProviderToken:
		bearer := strings.TrimPrefix(x.authorization, "bearer ")
		if c.key == nil || c.key.refresh(bearer, time.Now()) {
			return o
		}
		return stillExpired()
	case UnrelatedKeyIDInToken, IdleTimeout, Shutdown:
		s.connections.retire(x.conn)
	}
	return o
}

// Close implements providers.Sender. It does not wait for pushes in flight: they fail
// and are ambiguous.
func (s *Sender) Close() error {
	s.connections.close()
	s.watching.Wait()
	return nil
}

// isHex reports whether token has the form of a device token: one or more hexadecimal digits.
func isHex(token string) bool {
	for i := range len(token) {
		switch c := token[i]; {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
		default:
			return false
		}
	}
	return token != ""
}
