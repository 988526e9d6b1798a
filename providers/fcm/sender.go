// Package fcm sends notifications through Firebase Cloud Messaging, with the
// v1 API and the firebase SDK. Package fcmtest is its stand-in for tests.
package fcm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	firebase "firebase.google.com/go/v4"
	"firebase.google.com/go/v4/messaging"
	"google.golang.org/api/option"

	"github.com/pushpace/pushpace/internal/base/filewatch"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/fcm/fcmconfig"
	"github.com/pushpace/pushpace/providers/fcm/internal/wire"
	"github.com/pushpace/pushpace/push"
)

// Config describes how to reach FCM on behalf of one Firebase project. Package fcmconfig has it for
// programs without the SDK.
type Config = fcmconfig.Config

const (
	// DefaultTimeout is how long one attempt may take when Config.Timeout is zero.
	DefaultTimeout = fcmconfig.DefaultTimeout
	// MaxTimeout is the longest Config.Timeout.
	MaxTimeout = fcmconfig.MaxTimeout

	defaultEndpoint = "https://fcm.googleapis.com"
)

// A Sender sends for one Firebase project. It implements providers.Sender.
type Sender struct {
	client    *messaging.Client
	transport *http.Transport
	tokens    *accessTokens
	lines     map[push.Platform]*providers.Line // by push service
	timeout   time.Duration
	dryRun    bool
	end       context.CancelFunc

	endpoint, project, rootCAFile string
	fingerprint                   atomic.Pointer[string]

	credentialsFile string
	// account is the credentials' project, if the configuration names no project.
	account   string
	reloading sync.Mutex
	onReload  atomic.Pointer[func(error)]
	watching  sync.WaitGroup

	mu     sync.RWMutex
	closed bool
	sends  sync.WaitGroup
}

var _ providers.Sender = (*Sender)(nil)

// New returns a sender for cfg. It reads the files that cfg names and opens no connection: FCM and
// the token endpoint may be down. Its error names the faulty key of cfg. The context bounds New
// only.
func New(ctx context.Context, cfg Config) (*Sender, error) {
	return newSender(ctx, cfg, filewatch.Interval)
}

func newSender(ctx context.Context, cfg Config, interval time.Duration) (*Sender, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	roots, err := providers.ReadRoots(cfg.RootCAFile)
	if err != nil {
		return nil, err
	}
	watch := filewatch.New(cfg.CredentialsFile)
	account, named, err := wire.ReadCredentials(cfg.CredentialsFile)
	if err != nil {
		return nil, err
	}
	project := cmp.Or(cfg.ProjectID, named)
	if !wire.IsProject(project) {
		return nil, errors.New("project_id: is missing, and credentials_file names no project either")
	}
	proxy, err := providers.EnvironmentProxy()
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.Background())
	transport := newTransport(life, roots, proxy)
	endpoint := cmp.Or(cfg.Endpoint, defaultEndpoint)
	client, err := newClient(ctx, project, endpoint, transport)
	if err != nil {
		end()
		return nil, fmt.Errorf("firebase: %w", err)
	}
	timeout := cmp.Or(cfg.Timeout, DefaultTimeout)
	s := &Sender{
		client: client, transport: transport, lines: map[push.Platform]*providers.Line{}, timeout: timeout, dryRun: cfg.DryRun, end: end,
		tokens:          &accessTokens{account: account, base: transport, timeout: timeout, life: life},
		credentialsFile: cfg.CredentialsFile, endpoint: endpoint, project: project, rootCAFile: cfg.RootCAFile,
	}
	for _, service := range push.Services(push.FCM) {
		s.lines[service] = providers.NewLine(maxInFlight)
	}
	s.identify(account)
	if cfg.ProjectID == "" {
		s.account = named
	}
	s.watching.Go(func() { watch.Run(life, interval, s.reload) })
	return s, nil
}

func newClient(ctx context.Context, project, endpoint string, transport http.RoundTripper) (*messaging.Client, error) {
	app, err := firebase.NewApp(ctx, &firebase.Config{ProjectID: project},
		option.WithEndpoint(strings.TrimRight(endpoint, "/")+"/v1"),
		option.WithHTTPClient(&http.Client{Transport: roundTripper{transport}, CheckRedirect: noRedirect}))
	if err != nil {
		return nil, err
	}
	return app.Messaging(ctx)
}

// Send makes one attempt, as providers.Sender says. It ends with the context or
// after Config.Timeout, whichever comes first.
func (s *Sender) Send(ctx context.Context, n *push.Notification, t push.Target, departure providers.Departure) providers.Outcome {
	message, err := n.RenderFCM(t, time.Now())
	if err != nil {
		o := wire.Rejected(providers.Invalid)
		o.Err = err
		return o
	}
	if !s.begin() {
		return providers.Outcome{Kind: providers.Retry, Reason: providers.Cancelled, Err: errors.New("the sender is closed")}
	}
	defer s.sends.Done()

	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	leave, err := s.lines[t.Service()].Enter(ctx)
	if err != nil {
		return notSent(err)
	}
	defer leave()
	token, failed := s.tokens.get(ctx)
	switch {
	case failed != nil:
		return *failed
	case departure.TooLate():
		return providers.TooLateOutcome()
	}
	return s.attempt(ctx, token, message, t, departure)
}

func (s *Sender) attempt(ctx context.Context, token *accessToken, message push.FCMMessage, t push.Target, departure providers.Departure) providers.Outcome {
	a := &attempt{bearer: token.value, body: providers.NewBody(departure, wire.SendRequest(message, s.dryRun), s.lines[t.Service()].Connected)}
	// The attempt records more than the SDK returns. The SDK requires an address in Fid, even for a
	// token: the attempt sends its own body.
	_, _ = s.client.Send(context.WithValue(ctx, attemptKey{}, a), &messaging.Message{Fid: t.Address()})
	worked := token.worked.Load()
	switch {
	case a.status == http.StatusUnauthorized:
		s.tokens.drop(token)
	case a.status >= 200 && a.status < 300 && !worked:
		token.worked.Store(true)
	}
	o := a.outcome(ctx, worked, time.Now())
	if s.dryRun {
		o = rehearsed(o)
	}
	return o
}

// rehearsed returns the outcome of a message that FCM only checks.
func rehearsed(o providers.Outcome) providers.Outcome {
	o.Ambiguous = false
	if o.Kind == providers.Delivered {
		o.Reason, o.ProviderID = providers.DryRun, ""
	}
	return o
}

// begin counts a push, unless the sender is closed.
func (s *Sender) begin() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return false
	}
	s.sends.Add(1)
	return true
}

// Close waits for the pushes in flight, at most until their deadlines, and then closes the
// connections. It returns nil. Later pushes are not sent: their outcome is Retry.
func (s *Sender) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.sends.Wait()
	s.end()
	s.watching.Wait()
	s.tokens.fetches.Wait()
	s.transport.CloseIdleConnections()
	return nil
}
