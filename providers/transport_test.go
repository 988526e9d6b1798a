package providers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

func TestTransportOutcomeByError(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for _, c := range []struct {
		name      string
		err       error
		kind      Kind
		reason    Reason
		ambiguous bool
		concerns  Concern
	}{
		{"dial", refused, Retry, DialFailed, false, ConcernsProvider},
		{"no such host", &net.DNSError{Name: "x", IsNotFound: true}, Retry, DialFailed, false, ConcernsProvider},
		{"not TLS", tls.RecordHeaderError{Msg: "first record"}, Retry, DialFailed, false, ConcernsProvider},
		{"deadline", context.DeadlineExceeded, Retry, TimedOut, true, ConcernsProvider},
		{"read times out", &net.OpError{Op: "read", Err: timeoutError{}}, Retry, TimedOut, true, ConcernsProvider},
		{"cancelled", context.Canceled, Retry, Cancelled, true, NoConcern},
		{"EOF", io.EOF, Retry, ConnectionLost, true, ConcernsProvider},
		{"reset", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, Retry, ConnectionLost, true, ConcernsProvider},
		{"GOAWAY", goAwayError{}, Retry, ConnectionLost, true, ConcernsProvider},
		{"stream reset", http2.StreamError{Code: http2.ErrCodeInternal}, Retry, ConnectionLost, true, ConcernsProvider},
		{"stream refused", http2.StreamError{Code: http2.ErrCodeRefusedStream}, Retry, ConnectionLost, false, ConcernsProvider},
		{"unknown", errors.New("secret"), Retry, ConnectionLost, true, ConcernsProvider},
		{"our certificate", &net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, Misconfigured, TLSRefused, false, ConcernsApp},
	} {
		for _, wrapped := range []error{
			c.err,
			fmt.Errorf("outer: %w", &url.Error{Op: "Post", URL: "https://host/3/device/secret", Err: c.err}),
		} {
			o := TransportOutcome(wrapped)
			if o.Kind != c.kind || o.Reason != c.reason || o.Ambiguous != c.ambiguous || o.Concerns != c.concerns {
				t.Errorf("%s: %+v", c.name, o)
			}
			if o.Err == nil || strings.Contains(o.Err.Error(), "secret") {
				t.Errorf("%s: error %v", c.name, o.Err)
			}
		}
	}
}

// goAwayError stands for the HTTP/2 client's error, which quotes the peer.
type goAwayError struct{}

func (goAwayError) Error() string { return "http2: server sent GOAWAY, debug=secret" }

type timeoutError struct{}

func (timeoutError) Error() string { return "i/o timeout" }
func (timeoutError) Timeout() bool { return true }

// TransportOutcome classifies real errors of net/http with unexported types.
func TestTransportOutcomeOfRealErrors(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_, _ = io.WriteString(conn, "secret nonsense\r\n\r\n")
			_ = conn.Close()
		}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = silent.Close() }()
	trusting := server.Client().Transport.(*http.Transport)

	for _, c := range []struct {
		name, url string
		transport *http.Transport
		kind      Kind
		reason    Reason
		ambiguous bool
	}{
		{"unknown authority", server.URL, &http.Transport{}, Misconfigured, TLSRefused, false},
		{"malformed answer", server.URL, trusting, Retry, ConnectionLost, true},
		{"plain HTTP behind https", strings.Replace(plain.URL, "http:", "https:", 1), &http.Transport{}, Retry, DialFailed, false},
		{"no TLS handshake", "https://" + silent.Addr().String(), &http.Transport{TLSHandshakeTimeout: time.Millisecond}, Retry, DialFailed, false},
	} {
		request, err := http.NewRequest(http.MethodPost, c.url+"/secret", strings.NewReader("secret"))
		must(t, err)
		response, err := (&http.Client{Transport: c.transport}).Do(request)
		if err == nil {
			_ = response.Body.Close()
			t.Errorf("%s: no error", c.name)
			continue
		}
		o := TransportOutcome(err)
		if o.Kind != c.kind || o.Reason != c.reason || o.Ambiguous != c.ambiguous {
			t.Errorf("%s: %+v from %T %v", c.name, o, err, err)
		}
		if strings.Contains(o.Err.Error(), "secret") {
			t.Errorf("%s: error %v", c.name, o.Err)
		}
		c.transport.CloseIdleConnections()
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
