package providers

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
)

// The steps of reaching a provider.
const (
	StepToken   = "token" // a credential that may be valid
	StepDNS     = "dns"   // left out if the host is an IP address, or a proxy resolves it
	StepConnect = "connect"
	StepTLS     = "tls"
	StepAnswer  = "answer" // to a request that sends no notification
)

// A Reached is the result of a Sender's check of its provider.
type Reached struct {
	Passed []string // the steps that passed, in order
	Failed string   // the step that failed; empty if all passed
	Err    error    // the cause, for people
}

// OK reports whether all steps passed.
func (r Reached) OK() bool { return r.Failed == "" }

// Reach requests the host's root, and returns the steps that passed. Any answer passes StepAnswer,
// because a provider has no page at the root. Pass a transport without an open connection to the
// host, which would skip steps.
func Reach(ctx context.Context, transport http.RoundTripper, host string) Reached {
	var mu sync.Mutex // a host's addresses are dialled in parallel
	var passed []string
	pass := func(step string, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err == nil && !slices.Contains(passed, step) {
			passed = append(passed, step)
		}
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSDone:          func(i httptrace.DNSDoneInfo) { pass(StepDNS, i.Err) },
		ConnectDone:      func(_, _ string, err error) { pass(StepConnect, err) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) { pass(StepTLS, err) },
	})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, host+"/", nil)
	if err != nil {
		return Reached{Failed: StepDNS, Err: err}
	}
	response, err := transport.RoundTrip(request)
	if err == nil {
		_, _ = io.CopyN(io.Discard, response.Body, 4<<10)
		_ = response.Body.Close()
		pass(StepAnswer, nil)
	}
	mu.Lock()
	defer mu.Unlock()
	r := Reached{Passed: slices.Clone(passed)}
	if err != nil {
		r.Failed, r.Err = failedStep(err, passed), TransportOutcome(err).Err
	}
	return r
}

// failedStep returns the step that failed after the passed ones.
func failedStep(err error, passed []string) string {
	switch {
	case errors.As(err, new(*ProxyError)):
		return StepConnect
	case slices.Contains(passed, StepTLS):
		return StepAnswer
	case errors.As(err, new(*net.DNSError)):
		return StepDNS
	case slices.Contains(passed, StepConnect):
		return StepTLS
	}
	return StepConnect
}
