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
const maxConns = 4

// maxInFlight bounds the pushes on their way: four connections carry Google's
// 100 streams each, and a request that finds no stream free would wait for a
// further connection that maxConns does not allow.
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
