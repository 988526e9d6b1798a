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
	// maxIdleConns bounds those that wait for a further push, to all hosts.
	maxIdleConns = 64
	// maxInFlight bounds the pushes on their way to one known service, and those to all
	// strangers together.
	maxInFlight = 256
	// maxHeader bounds an answer's header, in bytes.
	maxHeader = 16 << 10
)

// newTransport returns a transport that dials as dial does. Every connection ends with life
// at the latest.
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

// newStrangersTransport is newTransport for hosts that are not known: with HTTP/1.1 alone,
// in which a peer can do little but answer, and with connections of their own, so that no
// number of them ends one to a known service.
func newStrangersTransport(life context.Context, roots *x509.CertPool, dial providers.DialFunc) *http.Transport {
	t := newTransport(life, roots, dial)
	t.Protocols = &http.Protocols{}
	t.Protocols.SetHTTP1(true)
	return t
}
