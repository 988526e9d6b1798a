package fcm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/jwt"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/fcm/internal/wire"
)

// An accessToken is a bearer token for FCM.
type accessToken struct {
	value string
	// renew is when the next token is fetched ahead of need; this token is usable until expires.
	renew, expires time.Time
	// worked is set once FCM has accepted the token.
	worked atomic.Bool
}

// accessTokens fetches and stores the current access token. Concurrent callers without a token wait
// for the same fetch, each within its own context.
type accessTokens struct {
	base    http.RoundTripper
	timeout time.Duration
	life    context.Context

	mu      sync.Mutex
	account *jwt.Config
	current *accessToken
	fetch   *fetch // nil if no fetch is under way
	fetches sync.WaitGroup
}

// A fetch is one request for an access token. Its result may be read once done
// is closed.
type fetch struct {
	account *jwt.Config
	done    chan struct{}
	token   *accessToken
	// failed is the outcome of a failure.
	failed providers.Outcome
}

// get returns a usable access token, or the outcome of a push without a token.
func (s *accessTokens) get(ctx context.Context) (*accessToken, *providers.Outcome) {
	now := time.Now()
	s.mu.Lock()
	token := s.current
	usable := token != nil && now.Before(token.expires)
	if s.fetch == nil && (!usable || now.After(token.renew)) {
		s.fetch = &fetch{account: s.account, done: make(chan struct{})}
		s.fetches.Add(1)
		go s.run(s.fetch)
	}
	f := s.fetch
	s.mu.Unlock()
	if usable {
		return token, nil
	}
	select {
	case <-f.done:
		if f.token == nil {
			return nil, &f.failed
		}
		return f.token, nil
	case <-ctx.Done():
		o := noToken(f.account.TokenURL, ctx.Err())
		return nil, &o
	}
}

// drop forgets token, unless a newer token has replaced it.
func (s *accessTokens) drop(token *accessToken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == token {
		s.current = nil
	}
}

func (s *accessTokens) run(f *fetch) {
	defer s.fetches.Done()
	token, failed := s.ask(f.account)
	s.mu.Lock()
	defer s.mu.Unlock()
	f.token, f.failed = token, failed
	if token != nil && f.account == s.account {
		s.current = token
	}
	if s.fetch == f {
		s.fetch = nil
	}
	close(f.done)
}

// use sets the account, and its first token if there is one. Without a first token, the former
// account's token is used until a new token is fetched.
func (s *accessTokens) use(account *jwt.Config, token *accessToken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.account, s.fetch = account, nil
	switch {
	case token != nil:
		s.current = token
	case s.current != nil:
		former := &accessToken{value: s.current.value, expires: s.current.expires}
		former.worked.Store(s.current.worked.Load())
		s.current = former
	}
}

// ask requests one access token for account.
func (s *accessTokens) ask(account *jwt.Config) (*accessToken, providers.Outcome) {
	ctx, cancel := context.WithTimeout(s.life, s.timeout)
	defer cancel()
	// Package jwt takes no context and hides the type of a transport's error, so the transport
	// holds the context and the error.
	transport := &tokenTransport{ctx: ctx, next: s.base}
	client := &http.Client{Transport: transport, CheckRedirect: noRedirect}
	asked := time.Now()
	t, err := account.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, client)).Token()
	if transport.err != nil {
		return nil, noToken(account.TokenURL, cause(ctx, transport.err))
	}
	if refused := (*oauth2.RetrieveError)(nil); errors.As(err, &refused) {
		return nil, tokenRefused(account.TokenURL, refused.Response.StatusCode, providers.RetryAfter(refused.Response.Header, asked), refused.Body)
	}
	if err != nil || t.AccessToken == "" {
		return nil, tokenTrouble(0, fmt.Errorf("no access token: the answer of %s has none", account.TokenURL))
	}
	if t.Expiry.IsZero() {
		t.Expiry = asked.Add(time.Hour)
	}
	// Fetch the next token in the last tenth of the token's life: a token of an hour outlasts six
	// minutes of trouble at the token endpoint.
	life := t.Expiry.Sub(asked)
	return &accessToken{value: t.AccessToken, renew: t.Expiry.Add(-life / 10), expires: t.Expiry}, providers.Outcome{}
}

// tokenRefused returns the outcome of an error status of the token endpoint.
func tokenRefused(endpoint string, status int, retryAfter time.Duration, body []byte) providers.Outcome {
	if status >= 500 || status == http.StatusTooManyRequests {
		return tokenTrouble(retryAfter, fmt.Errorf("no access token: %s answered %d", endpoint, status))
	}
	var b struct {
		Error string `json:"error"`
	}
	_ = json.Unmarshal(body, &b) // an unreadable body is a refusal too
	switch b.Error {
	case "invalid_grant", "invalid_client", "invalid_request", "invalid_scope", "unauthorized_client", "unsupported_grant_type", "access_denied":
		b.Error = " " + b.Error
	default:
		b.Error = ""
	}
	o := wire.Misconfigured(CredentialsRefused, providers.ConcernsCredential)
	o.Err = fmt.Errorf("the token endpoint answered %d%s: the service account's key is revoked or wrong, or this machine's clock is off; check credentials_file", status, b.Error)
	return o
}

func tokenTrouble(retryAfter time.Duration, err error) providers.Outcome {
	return providers.Outcome{Kind: providers.Retry, Reason: TokenEndpointUnreachable, RetryAfter: retryAfter, Concerns: providers.ConcernsCredential, NotSent: true, Err: err}
}

// noToken returns the outcome of a transport error of the token endpoint. The endpoint's URL was
// checked: it holds no secret.
func noToken(endpoint string, err error) providers.Outcome {
	o := notSent(err)
	switch {
	case o.Reason == providers.Cancelled:
		return o
	case o.Kind == providers.Misconfigured:
		o.Err = fmt.Errorf("no access token: %s: %w", endpoint, o.Err)
		return o
	case o.Reason == providers.TimedOut:
		return tokenTrouble(0, fmt.Errorf("no access token: %s does not answer in time: %w", endpoint, context.DeadlineExceeded))
	}
	return tokenTrouble(0, fmt.Errorf("no access token: %s cannot be reached: %w", endpoint, providers.TransportCause(err)))
}

// notSent returns the outcome of a transport error before the push was sent.
func notSent(err error) providers.Outcome {
	o := providers.TransportOutcome(err)
	o.Ambiguous = false
	return o
}

// tokenTransport performs the one request of a fetch.
type tokenTransport struct {
	ctx  context.Context
	next http.RoundTripper
	err  error
}

func (t *tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r.WithContext(t.ctx))
	if err != nil {
		t.err = err
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, wire.MaxAnswer))
	_ = response.Body.Close()
	if err != nil {
		t.err = err
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
