package fcm

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/pushpace/pushpace/internal/base/batchconn"
)

// maxConns bounds the connections to each host. With HTTP/2 each carries 100
// pushes at once.
const maxConns = 4

// newTransport returns a transport over HTTP/2, or HTTP/1.1 where the peer has
// nothing better. Every connection ends with life at the latest, also one that
// is made while the transport is being closed.
func newTransport(life context.Context, roots *x509.CertPool) *http.Transport {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(life, cancel)()
			c, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			c = batchconn.New(c)
			return &conn{Conn: c, unbind: context.AfterFunc(life, func() { _ = c.Close() })}, nil
		},
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout:    5 * time.Second,
		ForceAttemptHTTP2:      true,
		MaxConnsPerHost:        maxConns,
		MaxIdleConnsPerHost:    maxConns,
		IdleConnTimeout:        5 * time.Minute,
		MaxResponseHeaderBytes: 64 << 10,
		// A connection that went silent is found out, not waited on.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second},
	}
}

// A conn is closed with the sender, unless it was before.
type conn struct {
	net.Conn
	unbind func() bool
}

func (c *conn) Close() error {
	c.unbind()
	return c.Conn.Close()
}

// readRoots returns the certificates in file, or nil, which means the system's,
// when file is empty.
func readRoots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("root_ca_file: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("root_ca_file: %s holds no certificate in PEM", file)
	}
	return roots, nil
}
