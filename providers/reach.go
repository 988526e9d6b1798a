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
	StepToken   = "token" // a credential that the provider may take
	StepDNS     = "dns"   // left out where the host is an address, or a proxy looks
	StepConnect = "connect"
	StepTLS     = "tls"
	StepAnswer  = "answer" // to a request that sends no notification
)

// A Reached is how far a Sender gets to its provider.
type Reached struct {
	Passed []string // the steps that went well, in order
	Failed string   // the one that did not; empty when all went well
	Err    error    // why, for a person
}

// OK reports whether all went well.
func (r Reached) OK() bool { return r.Failed == "" }

// Reach asks for the host's root, and says how far that gets. Any answer is one:
// a provider has nothing there. The transport needs no open connection to the host.
func Reach(ctx context.Context, transport http.RoundTripper, host string) Reached {
	var mu sync.Mutex // a host's addresses are dialled beside each other
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

// failedStep is the step at which a request failed that had passed these.
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
