package providers

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"
	"golang.org/x/net/proxy"
)

// A Proxy makes connections through a proxy by CONNECT or SOCKS5. All providers and
// webhooks share it. A nil Proxy connects directly.
type Proxy struct {
	url     *url.URL
	applies func(*url.URL) (*url.URL, error)
	roots   *x509.CertPool // for the certificate of an https proxy; nil for the system's
}

// A ProxyError means that a proxy has made no connection. Nothing was sent to the provider.
type ProxyError struct {
	Host   string // the proxy's
	Status int    // of its answer; 0 for none
	cause  error
}

// Error names the proxy's host, and no user or password.
func (e *ProxyError) Error() string {
	switch {
	case e.Status == http.StatusProxyAuthRequired:
		return fmt.Sprintf("the proxy %s answers %d: check user and password in HTTPS_PROXY", e.Host, e.Status)
	case e.Status != 0:
		return fmt.Sprintf("the proxy %s answers %d: allow CONNECT to this host there, or name the host in NO_PROXY", e.Host, e.Status)
	}
	return fmt.Sprintf("the proxy %s makes no connection: %v", e.Host, e.cause)
}

// errProxyURL does not repeat the URL, which may hold a password.
var errProxyURL = errors.New("HTTPS_PROXY: want the URL of a proxy: http://, https:// or socks5://, a host and a port")

// maxConnectAnswer bounds the header of a proxy's answer, in bytes.
const maxConnectAnswer = 64 << 10

// EnvironmentProxy returns the proxy of HTTPS_PROXY, or nil if that is empty. Loopback
// addresses and the hosts in NO_PROXY bypass the proxy. Lower-case names work too.
func EnvironmentProxy() (*Proxy, error) {
	return newProxy(httpproxy.FromEnvironment())
}

func newProxy(environment *httpproxy.Config) (*Proxy, error) {
	if environment.HTTPSProxy == "" {
		return nil, nil
	}
	text := environment.HTTPSProxy
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	at, err := url.Parse(text) // httpproxy ignores an unreadable URL
	if err != nil || at.Hostname() == "" {
		return nil, errProxyURL
	}
	if _, known := proxyPorts[at.Scheme]; !known {
		return nil, errProxyURL
	}
	return &Proxy{url: at, applies: environment.ProxyFunc()}, nil
}

// proxyPorts has the default port of each kind of proxy.
var proxyPorts = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}

// Host returns the proxy's host and port; "" for none.
func (p *Proxy) Host() string {
	if p == nil {
		return ""
	}
	port := p.url.Port()
	if port == "" {
		port = proxyPorts[p.url.Scheme]
	}
	return net.JoinHostPort(p.url.Hostname(), port)
}

// Applies reports whether connections to address, a host and port, go through the proxy.
func (p *Proxy) Applies(address string) bool {
	if p == nil {
		return false
	}
	at, err := p.applies(&url.URL{Scheme: "https", Host: address})
	return err == nil && at != nil
}

// Dialing returns a DialFunc that connects through the proxy where it applies, and with direct
// elsewhere. An error of a proxied connection is a *ProxyError.
func (p *Proxy) Dialing(direct DialFunc) DialFunc {
	if p == nil {
		return direct
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if !p.Applies(address) {
			return direct(ctx, network, address)
		}
		ctx, cancel := context.WithTimeout(ctx, DialTimeout)
		defer cancel()
		conn, err := p.dial(ctx, address)
		if known := (*ProxyError)(nil); err != nil && !errors.As(err, &known) {
			err = &ProxyError{Host: p.Host(), cause: harmless(err)}
		}
		return conn, err
	}
}

func (p *Proxy) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{KeepAlive: KeepAlive}).DialContext(ctx, "tcp", p.Host())
	if err != nil {
		return nil, err
	}
	interrupted := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	tunnel, err := p.tunnel(ctx, conn, address)
	if !interrupted() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		if ended := ctx.Err(); ended != nil {
			err = fmt.Errorf("no answer within %v", DialTimeout)
			if errors.Is(ended, context.Canceled) {
				err = ended
			}
			return nil, &ProxyError{Host: p.Host(), cause: err}
		}
		return nil, err
	}
	return tunnel, nil
}

// tunnel makes the proxy at the other end of conn connect to the address.
func (p *Proxy) tunnel(ctx context.Context, conn net.Conn, address string) (net.Conn, error) {
	switch p.url.Scheme {
	case "socks5", "socks5h":
		return p.socks(ctx, conn, address)
	case "https":
		secure := tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS12, ServerName: p.url.Hostname(), RootCAs: p.roots, NextProtos: []string{"http/1.1"}})
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		conn = secure
	}
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if user := p.url.User; user != nil {
		password, _ := user.Password()
		request.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	if err := request.Write(conn); err != nil {
		return nil, err
	}
	// The reader has buffered nothing of the tunnel: a TLS server does not speak first.
	response, err := http.ReadResponse(bufio.NewReader(io.LimitReader(conn, maxConnectAnswer)), request)
	if err != nil {
		return nil, &ProxyError{Host: p.Host(), cause: fmt.Errorf("it gave no HTTP answer to CONNECT: %w", harmless(err))}
	}
	if response.StatusCode != http.StatusOK {
		// Close would wait for the rest of the body; the caller closes the connection.
		return nil, &ProxyError{Host: p.Host(), Status: response.StatusCode}
	}
	return conn, nil
}

func (p *Proxy) socks(ctx context.Context, conn net.Conn, address string) (net.Conn, error) {
	var auth *proxy.Auth
	if user := p.url.User; user != nil {
		password, _ := user.Password()
		auth = &proxy.Auth{User: user.Username(), Password: password}
	}
	dialer, err := proxy.SOCKS5("tcp", p.Host(), auth, connected{conn})
	if err != nil {
		return nil, err
	}
	return dialer.(proxy.ContextDialer).DialContext(ctx, "tcp", address)
}

// connected is a dialer that returns an open connection.
type connected struct{ conn net.Conn }

func (c connected) Dial(string, string) (net.Conn, error) { return c.conn, nil }

func (c connected) DialContext(context.Context, string, string) (net.Conn, error) { return c.conn, nil }
