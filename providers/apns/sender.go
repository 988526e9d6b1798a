// Package apns sends notifications through Apple's push service, with
// sideshow/apns2 as its client.
package apns

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sideshow/apns2"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// A Sender sends one app's notifications to one environment of APNs. It
// implements providers.Sender. Close it to release its connections.
type Sender struct {
	client      *apns2.Client
	connections *connections
	topic       string
	timeout     time.Duration
}

var _ providers.Sender = (*Sender)(nil)

// New returns the Sender of a configuration. It reads the files and opens no
// connection. An error names the key of the configuration at fault.
func New(c Config) (*Sender, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	roots, err := loadRoots(c)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	client := &apns2.Client{Host: c.host()}
	if c.CertificateFile != "" {
		cert, err := loadCertificate(c)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{cert}
		client.Certificate = cert
	} else if client.Token, err = loadToken(c); err != nil {
		return nil, err
	}
	conns, err := newConnections(client.Host, config)
	if err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	client.HTTPClient = &http.Client{
		Transport: observed{conns},
		// APNs does not redirect: whoever does must not get the notification.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Sender{client: client, connections: conns, topic: c.Topic, timeout: c.timeout()}, nil
}

// Send implements providers.Sender. The attempt ends after the configured
// timeout, or at the context's deadline if that is earlier.
func (s *Sender) Send(ctx context.Context, n *push.Notification, t push.Target) providers.Outcome {
	m, err := n.RenderAPNs(t)
	if err != nil {
		return providers.Outcome{Kind: providers.Rejected, Reason: providers.Invalid, Concerns: providers.ConcernsMessage, Err: err}
	}
	if !isHex(t.Token) {
		// APNs disconnects those who send it many such.
		return classify(answer{status: http.StatusBadRequest, readable: true, reason: string(BadDeviceToken)})
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	x := &exchange{payload: m.Payload}
	response, err := s.client.PushWithContext(x.with(ctx), &apns2.Notification{
		ApnsID:      m.ID,
		CollapseID:  m.CollapseID,
		DeviceToken: t.Token,
		Topic:       s.topic + m.TopicSuffix,
		Expiration:  m.Expiration,
		Priority:    m.Priority,
		PushType:    apns2.EPushType(m.PushType),
		Payload:     "{}", // the exchange carries it
	})
	if x.status == 0 {
		return unanswered(err)
	}
	a := answer{status: x.status, id: x.id, retryAfter: x.retryAfter}
	if err == nil {
		a.readable, a.reason, a.since = true, response.Reason, response.Timestamp.Time
	}
	return s.react(classify(a), x)
}

// unanswered says what it means that no answer came.
func unanswered(err error) providers.Outcome {
	unsent := (*unsentError)(nil)
	if !errors.As(err, &unsent) {
		return providers.TransportOutcome(err)
	}
	o := providers.TransportOutcome(unsent.cause)
	if o.Reason == providers.ConnectionLost {
		o.Err = errors.New("APNs closed the connection without having taken the notification")
	}
	o.Ambiguous = false
	return o
}

// react does what an answer asks of the credential and the connection.
func (s *Sender) react(o providers.Outcome, x *exchange) providers.Outcome {
	switch o.Reason {
	case ExpiredProviderToken:
		if s.client.Token != nil {
			bearer := strings.TrimPrefix(x.authorization, "bearer ")
			o.RetryAfter = max(o.RetryAfter, refreshToken(s.client.Token, bearer, time.Now()))
		}
	case UnrelatedKeyIDInToken, IdleTimeout, Shutdown:
		s.connections.retire(x.conn)
	}
	return o
}

// Close implements providers.Sender. It does not wait for what is in flight:
// that fails, and is ambiguous.
func (s *Sender) Close() error {
	s.connections.close()
	return nil
}

// isHex reports whether a device token can be one: hexadecimal digits of any
// number but none.
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
