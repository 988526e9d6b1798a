package providers

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/pushpace/pushpace/providers/standin"
)

func TestProxyURLIsRead(t *testing.T) {
	t.Parallel()
	for text, host := range map[string]string{
		"": "", "proxy:3128": "proxy:3128", "http://proxy": "proxy:80", "https://u:p@proxy": "proxy:443", "socks5://proxy": "proxy:1080", "http://[2001:db8::1]:8080": "[2001:db8::1]:8080",
	} {
		if p, err := newProxy(&httpproxy.Config{HTTPSProxy: text}); err != nil || p.Host() != host {
			t.Errorf("%q: %q, %v", text, p.Host(), err)
		}
	}
	const secret = "canary"
	for _, text := range []string{"ftp://u:" + secret + "@proxy", "socks4://" + secret + "@proxy", "http://", "http://u:" + secret + "@proxy:port", "://" + secret, "http://" + secret + "%zz"} {
		if p, err := newProxy(&httpproxy.Config{HTTPSProxy: text}); err == nil || strings.Contains(err.Error(), secret) || !strings.HasPrefix(err.Error(), "HTTPS_PROXY: ") {
			t.Errorf("%q: %v, %v", text, p, err)
		}
	}
}

// serve serves connections at an address until the test ends.
func serve(t *testing.T, each func(conn net.Conn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { defer conn.Close(); each(conn) }()
		}
	}()
	return listener.Addr().String()
}

func echo(conn net.Conn) { _, _ = io.Copy(conn, conn) }

// nowhere is a dialer that must not be used.
func nowhere(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("dialled without the proxy")
}

func echoes(t *testing.T, p *Proxy) {
	t.Helper()
	conn, err := p.Dialing(nowhere)(t.Context(), "tcp", standin.ProxyHost+":443")
	must(t, err)
	defer conn.Close()
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestTLSProxyNeedsKnownAuthority(t *testing.T) {
	t.Parallel()
	certificate, ca, err := standin.NewCertificate()
	must(t, err)
	server, err := standin.NewProxy(serve(t, echo), &certificate)
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	p, err := newProxy(&httpproxy.Config{HTTPSProxy: "https://" + server.Address()})
	must(t, err)
	_, err = p.Dialing(nowhere)(t.Context(), "tcp", standin.ProxyHost+":443")
	if o := TransportOutcome(err); o.Reason != DialFailed || !o.NotSent || !strings.Contains(o.Err.Error(), "unknown authority") {
		t.Errorf("a proxy without a known authority: %+v", o)
	}
	p.roots = x509.NewCertPool()
	p.roots.AppendCertsFromPEM(ca)
	echoes(t, p)
}

func TestSOCKS5ProxyConnects(t *testing.T) {
	t.Parallel()
	to := serve(t, echo)
	address := serve(t, func(conn net.Conn) { serveSOCKS5(conn, to) })
	p, err := newProxy(&httpproxy.Config{HTTPSProxy: "socks5://u:p@" + address})
	must(t, err)
	echoes(t, p)
}

// serveSOCKS5 connects every request to the server at to, without authentication.
func serveSOCKS5(conn net.Conn, to string) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(conn, head); err != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, conn, int64(head[1]))
	_, _ = conn.Write([]byte{5, 0})
	request := make([]byte, 5)
	if _, err := io.ReadFull(conn, request); err != nil || request[3] != 3 { // a name
		return
	}
	_, _ = io.CopyN(io.Discard, conn, int64(request[4])+2)
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	_, _ = conn.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	go func() { _, _ = io.Copy(server, conn) }()
	_, _ = io.Copy(conn, server)
}

// If a proxy does not connect, nothing was sent, and the error repeats no text of the proxy.
func TestNothingIsSentIfProxyDoesNotConnect(t *testing.T) {
	t.Parallel()
	const secret = "canary"
	for name, answer := range map[string]string{
		"not HTTP": secret + "\r\n\r\n", "half an answer": "HTTP/1.1 200 Conn", "nothing": "", "a redirection": "HTTP/1.1 302 Found\r\nLocation: http://" + secret + "/\r\n\r\n",
		"a reason": "HTTP/1.1 403 " + secret + "\r\n\r\n" + secret,
	} {
		address := serve(t, func(conn net.Conn) {
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, _ = io.WriteString(conn, answer)
		})
		p, err := newProxy(&httpproxy.Config{HTTPSProxy: "http://user:" + secret + "@" + address})
		must(t, err)
		_, err = p.Dialing(nowhere)(t.Context(), "tcp", "provider.example:443")
		if err == nil {
			t.Errorf("%s: it connects", name)
			continue
		}
		o := TransportOutcome(&url.Error{Op: "Post", URL: "https://provider.example/" + secret, Err: err})
		if o.Kind != Retry || o.Reason != DialFailed || o.Ambiguous || !o.NotSent || o.Concerns != ConcernsProvider {
			t.Errorf("%s: %+v", name, o)
		}
		if !strings.Contains(o.Err.Error(), "the proxy "+p.Host()) || strings.Contains(o.Err.Error(), secret) {
			t.Errorf("%s: %v", name, o.Err)
		}
	}
}

// A dial through a silent proxy ends with the caller's context.
func TestDialThroughSilentProxyEndsWithCaller(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // nothing accepts its connections
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	p, err := newProxy(&httpproxy.Config{HTTPSProxy: listener.Addr().String()})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = p.Dialing(nowhere)(ctx, "tcp", "provider.example:443")
	if o := TransportOutcome(err); o.Reason != DialFailed || !o.NotSent {
		t.Errorf("%v: %+v", err, o)
	}
}

// Without a proxy, and where it does not apply, connections are direct.
func TestNoProxyDialsDirectly(t *testing.T) {
	t.Parallel()
	var none *Proxy
	some, err := newProxy(&httpproxy.Config{HTTPSProxy: "proxy.invalid:1", NoProxy: "*"})
	must(t, err)
	for _, p := range []*Proxy{none, some} {
		if _, err := p.Dialing(nowhere)(t.Context(), "tcp", "provider.example:443"); err == nil || !strings.Contains(err.Error(), "without the proxy") {
			t.Errorf("%v", err)
		}
	}
}
