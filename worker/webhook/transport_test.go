package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/internal/base/metadata"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/standin"
)

// The error of a refused CONNECT names the proxy and its status.
func TestPostGoesThroughProxy(t *testing.T) {
	certificate, ca, err := standin.NewCertificate()
	if err != nil {
		t.Fatal(err)
	}
	var bodies []string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	by, err := standin.NewProxy(strings.TrimPrefix(server.URL, "https://"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = by.Close() })
	t.Setenv("HTTPS_PROXY", "http://user:canary@"+by.Address())
	t.Setenv("NO_PROXY", "")
	proxy, err := providers.EnvironmentProxy()
	if err != nil {
		t.Fatal(err)
	}
	way := transport(proxy)
	way.DisableKeepAlives = true
	way.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	way.TLSClientConfig.RootCAs.AppendCertsFromPEM(ca)
	d := &deliverer[int]{hook: Hook{URL: "https://" + standin.ProxyHost + "/secret-path"}, client: &http.Client{Transport: way}}
	if _, err := d.post(t.Context(), []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if targets := by.Targets(); !slices.Equal(targets, []string{standin.ProxyHost + ":443"}) || !slices.Equal(bodies, []string{"hello"}) {
		t.Errorf("the proxy was asked for %q, the webhook got %q", targets, bodies)
	}
	by.Answer(http.StatusForbidden)
	if _, err := d.post(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "the proxy "+by.Address()+" answers 403") || strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "secret-path") {
		t.Errorf("%v", err)
	}
}

func TestTransportRefusesMetadataService(t *testing.T) {
	t.Parallel()
	if _, err := transport(nil).DialContext(t.Context(), "tcp", "169.254.169.254:80"); !errors.Is(err, metadata.ErrAddress) {
		t.Error(err)
	}
}
