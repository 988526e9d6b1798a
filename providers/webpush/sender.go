// Package webpush sends notifications to browsers by Web Push (RFC 8030). Start with Sender. It
// encrypts each message (RFC 8291), signs with the app's key (RFC 8292), and sends to the push
// service in the subscription's endpoint. Endpoints are user input: a host that is not a known
// service must reach neither internal addresses nor other hosts' capacity. Package webpushtest is
// the stand-in for tests.
package webpush

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// A Sender sends for one app. It implements providers.Sender.
type Sender struct {
	key     *Key
	tokens  *tokens
	hosts   []string
	timeout time.Duration
	dryRun  bool
	// endpoint receives the messages in place of the push services; nil for none.
	endpoint    *url.URL
	fingerprint string

	peers              map[push.Platform]*peer
	strangers          *strangers
	transport          *http.Transport
	strangersTransport *http.Transport
	end                context.CancelFunc

	mu     sync.RWMutex
	closed bool
	sends  sync.WaitGroup
}

var _ providers.Sender = (*Sender)(nil)

// A peer is the Sender's state of a known service.
type peer struct {
	line  *providers.Line
	proof proof
}

// New returns a sender for cfg. It reads the files that cfg names and does not connect. Its error
// names the faulty key of cfg.
func New(cfg Config) (*Sender, error) {
	proxy, err := providers.EnvironmentProxy()
	if err != nil {
		return nil, err
	}
	if cfg.Endpoint != "" { // the operator has chosen it, so it is trusted
		dial := proxy.Dialing((&net.Dialer{Timeout: providers.DialTimeout, KeepAlive: providers.KeepAlive}).DialContext)
		return newSender(cfg, dial, dial)
	}
	direct := guardedDialer(httpsPort).DialContext
	return newSender(cfg, proxy.Dialing(direct), strangerDialer(proxy, direct, httpsPort, net.DefaultResolver))
}

// newSender is New with dial functions for known services and for unknown hosts.
func newSender(cfg Config, dial, toStrangers providers.DialFunc) (*Sender, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	key, err := ReadKey(cfg.PrivateKeyFile)
	if err != nil {
		return nil, fmt.Errorf("private_key_file: %w", err)
	}
	roots, err := providers.ReadRoots(cfg.RootCAFile)
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.Background())
	s := &Sender{
		key: key, tokens: newTokens(key, cfg.Subject), hosts: cfg.AllowedHosts(), timeout: cmp.Or(cfg.Timeout, DefaultTimeout), dryRun: cfg.DryRun,
		fingerprint: providers.Fingerprint(key.Public(), cfg.Subject, cfg.Endpoint, cfg.RootCAFile),
		peers:       map[push.Platform]*peer{}, strangers: newStrangers(),
		transport: newTransport(life, roots, dial), strangersTransport: newStrangersTransport(life, roots, toStrangers), end: end,
	}
	services := push.Services(push.PlatformWebPush)
	for _, service := range services {
		if service != push.WebPushOther {
			s.peers[service] = &peer{line: providers.NewLine(maxInFlight)}
		}
	}
	if cfg.Endpoint != "" {
		s.endpoint, _ = url.Parse(cfg.Endpoint) // Validate has parsed it
		s.strangersTransport = s.transport
		s.transport.MaxConnsPerHost *= len(services) // one host serves all services
		s.transport.MaxIdleConnsPerHost = s.transport.MaxConnsPerHost
	}
	return s, nil
}

// Send makes one attempt: see providers.Sender. It ends with ctx or after Config.Timeout,
// whichever is first.
func (s *Sender) Send(ctx context.Context, n *push.Notification, t push.Target, departure providers.Departure) providers.Outcome {
	message, err := n.RenderWebPush(t, time.Now())
	if err != nil {
		return providers.Outcome{Kind: providers.Rejected, Reason: providers.Invalid, Concerns: providers.ConcernsMessage, Err: err}
	}
	to, refused := s.subscription(t)
	if refused != nil {
		return *refused
	}
	if !s.begin() {
		return providers.Outcome{Kind: providers.Retry, Reason: providers.Cancelled, Err: errors.New("the sender is closed")}
	}
	defer s.sends.Done()

	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if s.dryRun {
		return s.rehearse(ctx, to, message)
	}
	if to.service == push.WebPushOther {
		return s.sendToStranger(ctx, to, message, departure)
	}
	at := s.peers[to.service]
	leave, err := at.line.Enter(ctx)
	if err != nil {
		return notSentOutcome(err)
	}
	defer leave()
	return s.attempt(ctx, to, message, departure, at.line.Connected)
}

// sendToStranger makes an attempt at a host that is not a known service.
func (s *Sender) sendToStranger(ctx context.Context, to subscription, message push.WebPushMessage, departure providers.Departure) providers.Outcome {
	at := s.strangers.get(to.host)
	leave, left, err := s.strangers.enter(ctx, at)
	switch {
	case err != nil:
		return strangerOutcome(notSentOutcome(err))
	case left > 0:
		return backoffOutcome(to.host, left)
	}
	defer leave()
	o := s.attempt(ctx, to, message, departure, func() {})
	if o.Reason != providers.Cancelled && o.Reason != providers.TooLate { // these reasons say nothing about the host
		at.record(isFailure(o), time.Now())
	}
	return o
}

// isFailure reports whether an outcome means that a host does not work.
func isFailure(o providers.Outcome) bool {
	switch o.Reason {
	case providers.DialFailed, providers.TimedOut, providers.ConnectionLost, providers.TLSRefused, providers.Unreadable, ServerError:
		return true
	}
	return false
}

// A subscription is a parsed target: endpoint, keys and service.
type subscription struct {
	endpoint
	receiver
	service push.Platform
}

// subscription parses a target, and refuses one that must not be sent to.
func (s *Sender) subscription(t push.Target) (subscription, *providers.Outcome) {
	refused := func(kind providers.Kind, reason providers.Reason, err error) *providers.Outcome {
		return &providers.Outcome{Kind: kind, Reason: reason, Concerns: providers.ConcernsToken, NotSent: true, Err: err}
	}
	at, err := parseEndpoint(t.Token)
	switch {
	case err != nil:
		return subscription{}, refused(providers.Rejected, EndpointRefused, err)
	case at.host == push.RemovedHost:
		return subscription{}, refused(providers.DeadToken, Gone, fmt.Errorf("the endpoint is at %s, which the browser uses for ended subscriptions", push.RemovedHost))
	case !push.HostAmong(s.hosts, at.host):
		return subscription{}, refused(providers.Rejected, EndpointRefused, fmt.Errorf("the endpoint's host %s is not allowed by the configuration's hosts", at.host))
	}
	to, err := parseReceiver(t.Keys)
	if err != nil {
		return subscription{}, refused(providers.Rejected, providers.Invalid, err)
	}
	return subscription{endpoint: at, receiver: to, service: t.Service()}, nil
}

// begin counts a push in flight, unless the sender is closed.
func (s *Sender) begin() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return false
	}
	s.sends.Add(1)
	return true
}

// PublicKey returns the public key that browsers subscribe with: see Key.Public.
func (s *Sender) PublicKey() string { return s.key.Public() }

// Fingerprint covers the key and its use: see providers.Fingerprint.
func (s *Sender) Fingerprint() string { return s.fingerprint }

// CredentialExpiry returns false: a key does not expire.
func (s *Sender) CredentialExpiry() (time.Time, bool) { return time.Time{}, false }

// Close waits for the pushes in flight, bounded by their deadlines, and then closes the
// connections. It returns nil. Later pushes are not sent: their outcome is Retry.
func (s *Sender) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.sends.Wait()
	s.end()
	s.transport.CloseIdleConnections()
	s.strangersTransport.CloseIdleConnections()
	return nil
}
