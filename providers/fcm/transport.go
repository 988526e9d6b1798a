package fcm

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"time"

	"github.com/pushpace/pushpace/providers"
)

// maxConns bounds the connections to each host. With HTTP/2 each connection carries 100 pushes at
// once.
const maxConns = 8

// maxInFlight bounds the pushes in flight to tokens, and separately to FIDs. The connections have
// more streams than both bounds together: a request without a free stream would wait for a
// connection that maxConns does not allow.
const maxInFlight = 256

// newTransport returns a transport over HTTP/2, or HTTP/1.1 if the peer has no HTTP/2, through the
// proxy where it applies. Every connection is closed when life ends, even if it is made at that
// moment.
func newTransport(life context.Context, roots *x509.CertPool, proxy *providers.Proxy) *http.Transport {
	direct := &net.Dialer{Timeout: providers.DialTimeout, KeepAlive: providers.KeepAlive}
	return &http.Transport{
		DialContext:            providers.Dialing(life, proxy.Dialing(direct.DialContext)),
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout:    5 * time.Second,
		ForceAttemptHTTP2:      true,
		MaxConnsPerHost:        maxConns,
		MaxIdleConnsPerHost:    maxConns,
		IdleConnTimeout:        5 * time.Minute,
		MaxResponseHeaderBytes: 64 << 10,
		// Pings find a silent connection, so that no push waits for it.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second},
	}
}
