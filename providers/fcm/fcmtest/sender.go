package fcmtest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/fcm/internal/wire"
	"github.com/pushpace/pushpace/push"
)

// NewSender returns a sender to the server's first project, for tests that need no SDK: it
// classifies answers like fcm.Sender. It requests no access token, and only the context bounds an
// attempt.
func (s *Server) NewSender() providers.Sender {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CA())
	return &sender{server: s, bearer: s.access.issue(time.Now()), transport: &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, ForceAttemptHTTP2: true,
	}}
}

type sender struct {
	server    *Server
	bearer    string
	transport *http.Transport
}

func (s *sender) Send(ctx context.Context, n *push.Notification, t push.Target, departure providers.Departure) providers.Outcome {
	message, err := n.RenderFCM(t, time.Now())
	if err != nil {
		o := wire.Rejected(providers.Invalid)
		o.Err = err
		return o
	}
	if departure.TooLate() {
		return providers.TooLateOutcome()
	}
	url := s.server.URL() + "/v1/projects/" + s.server.Project() + "/messages:send"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return providers.TransportOutcome(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.bearer)
	r.Header.Set("Content-Type", "application/json")
	body := providers.NewBody(departure, wire.SendRequest(message, false), func() {})
	response, err := providers.TraceRequest(body.Sent(r), s.transport.RoundTrip)
	switch {
	case body.Late():
		return providers.TooLateOutcome()
	case err != nil:
		if ended := ctx.Err(); ended != nil {
			err = ended
		}
		o := providers.TransportOutcome(err)
		o.Ambiguous = o.Ambiguous && body.Wrote()
		return o
	}
	defer func() { _ = response.Body.Close() }()
	reply, _ := wire.ReadReply(response) // without it, only the reason is missing
	return wire.Classify(wire.ReadAnswer(response.StatusCode, response.Header, reply, time.Now()))
}

func (s *sender) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}
