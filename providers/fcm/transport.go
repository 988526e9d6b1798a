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

// maxConns bounds the connections to each host. With HTTP/2 each carries 100
// pushes at once.
const maxConns = 8

// maxInFlight bounds the pushes in flight to tokens, and to FIDs. The
// connections have more streams than both together: a request without a free
// stream would wait for a connection that maxConns does not allow.
const maxInFlight = 256

// newTransport returns a transport over HTTP/2, or HTTP/1.1 where the peer has
// nothing better, by way of the proxy where that applies. Every connection ends with life at the latest, also one that
// is made while the transport is being closed.
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
		// A connection that went silent is found out, not waited on.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second},
	}
}
