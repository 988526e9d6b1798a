package providertest

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/standin"
)

const (
	proxyUser     = "corp"
	proxyPassword = "proxy-canary"
)

// TestProxy tests a sender behind a proxy. It sets the environment: the test must not be
// parallel.
func TestProxy(t *testing.T, start func(t *testing.T) Harness) {
	t.Helper()
	for _, variable := range []string{"HTTPS_PROXY", "https_proxy"} {
		t.Run(variable, func(t *testing.T) { testDeliveredByProxy(proxied(t, start, variable)) })
	}
	for name, status := range map[string]int{"403": http.StatusForbidden, "407": http.StatusProxyAuthRequired, "502": http.StatusBadGateway, "204": http.StatusNoContent, "no answer": 0} {
		t.Run(name, func(t *testing.T) {
			b, p := proxied(t, start, "HTTPS_PROXY")
			p.Answer(status)
			testRefusedByProxy(b, p)
			p.Answer(http.StatusOK)
			b.want(b.send(b.Context(), b.behind(), 1), providers.Delivered)
		})
	}
	t.Run("down", func(t *testing.T) {
		b, p := proxied(t, start, "HTTPS_PROXY")
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		testRefusedByProxy(b, p)
	})
	t.Run("this machine", func(t *testing.T) { testThisMachineByNoProxy(proxied(t, start, "HTTPS_PROXY")) })
}

// proxied returns a case behind a proxy to the stand-in. variable is the environment variable that
// names the proxy.
func proxied(t *testing.T, start func(t *testing.T) Harness, variable string) (*bench, *standin.Proxy) {
	t.Helper()
	h := start(t)
	t.Cleanup(func() { _ = h.StandIn.Close() })
	p, err := standin.NewProxy(strings.TrimPrefix(h.StandIn.URL(), "https://"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	for _, other := range []string{"HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"} {
		t.Setenv(other, "")
	}
	t.Setenv(variable, "http://"+proxyUser+":"+proxyPassword+"@"+p.Address())
	h.Secrets = append(slices.Clone(h.Secrets), proxyPassword)
	return &bench{T: t, Harness: h}, p
}

// behind returns a sender. Only the proxy knows the host name of its endpoint.
func (b *bench) behind() providers.Sender {
	b.Helper()
	const endpoint = "https://" + standin.ProxyHost
	if b.At == nil {
		return b.sender(Options{Endpoint: endpoint})
	}
	s := b.At(b.T, endpoint)
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func testDeliveredByProxy(b *bench, p *standin.Proxy) {
	b.want(b.send(b.Context(), b.behind(), 0), providers.Delivered, providers.OK)
	b.wantCounts(1, 1)
	targets := p.Targets()
	if len(targets) == 0 || slices.ContainsFunc(targets, func(to string) bool { return to != standin.ProxyHost+":443" }) {
		b.Errorf("the proxy was asked for %q", targets)
	}
	if got, want := p.Authorization(), "Basic "+base64.StdEncoding.EncodeToString([]byte(proxyUser+":"+proxyPassword)); got != want {
		b.Errorf("the proxy got the credentials %q", got)
	}
}

func testRefusedByProxy(b *bench, p *standin.Proxy) {
	o := b.send(b.Context(), b.behind(), 0)
	b.want(o, providers.Retry)
	b.wantAmbiguous(o, false)
	if !o.NotSent || !strings.Contains(o.Err.Error(), "the proxy "+p.Address()) {
		b.Errorf("not sent is %v: %v", o.NotSent, o.Err)
	}
	if o.Reason != providers.DialFailed && !slices.Contains(b.Reasons, o.Reason) { // FCM fails at its access token
		b.Errorf("reason %s", o.Reason)
	}
	b.wantCounts(0, 0)
}

func testThisMachineByNoProxy(b *bench, p *standin.Proxy) {
	b.want(b.send(b.Context(), b.sender(Options{}), 0), providers.Delivered)
	if targets := p.Targets(); len(targets) > 0 {
		b.Errorf("the proxy was asked for %q", targets)
	}
}
