package webpush

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"time"

	"github.com/pushpace/pushpace/providers"
)

const (
	// maxConns bounds the connections to each host.
	maxConns = 4
	// maxIdleConns bounds the idle connections to all hosts.
	maxIdleConns = 64
	// maxInFlight bounds the pushes in flight to one known service, and to all unknown hosts
	// together.
	maxInFlight = 256
	// maxHeader bounds an answer's header, in bytes.
	maxHeader = 16 << 10
)

// newTransport returns a transport that dials with dial. Its connections are closed when life ends.
func newTransport(life context.Context, roots *x509.CertPool, dial providers.DialFunc) *http.Transport {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	return &http.Transport{
		DialContext:            providers.Dialing(life, dial),
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout:    5 * time.Second,
		Protocols:              protocols,
		MaxConnsPerHost:        maxConns,
		MaxIdleConns:           maxIdleConns,
		MaxIdleConnsPerHost:    maxConns,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second},
	}
}

// newStrangersTransport is newTransport for unknown hosts. It uses only HTTP/1.1, which gives a
// peer few means besides an answer. Its connections are separate, so that they never displace a
// connection to a known service.
func newStrangersTransport(life context.Context, roots *x509.CertPool, dial providers.DialFunc) *http.Transport {
	t := newTransport(life, roots, dial)
	t.Protocols = &http.Protocols{}
	t.Protocols.SetHTTP1(true)
	return t
}
