package standin

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// HTTPSOptions are the options of an HTTPS server.
type HTTPSOptions struct {
	// Address to listen on. Empty means a free port of 127.0.0.1.
	Address string
	// Names are host names of the server besides this machine's.
	Names []string
	// HTTP1 disables HTTP/2.
	HTTP1 bool
	// Streams is the most requests at once on a connection with HTTP/2.
	Streams int
	// Counters count the connections.
	Counters *Counters
}

// An HTTPS is a server over TLS for a stand-in, with its own certificate authority, for HTTP/2 and
// HTTP/1.1.
type HTTPS struct {
	ca       []byte
	listener net.Listener
	server   *http.Server
	served   chan struct{} // nil before Serve
	closing  chan struct{}
	once     sync.Once
}

// NewHTTPS returns a server that listens. It answers after Serve. Close it.
func NewHTTPS(o HTTPSOptions) (*HTTPS, error) {
	certificate, ca, err := NewCertificate(o.Names...)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	listener, err := net.Listen("tcp", cmp.Or(o.Address, "127.0.0.1:0"))
	if err != nil {
		return nil, err
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(!o.HTTP1)
	h := &HTTPS{
		ca: ca, listener: listener, closing: make(chan struct{}),
		server: &http.Server{
			TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
			Protocols:         protocols,
			HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: o.Streams},
			ReadHeaderTimeout: 10 * time.Second,
			ErrorLog:          log.New(io.Discard, "", 0), // do not log clients that do not trust the certificate
			ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
			ConnState: func(_ net.Conn, state http.ConnState) {
				switch state {
				case http.StateNew:
					o.Counters.Opened()
				case http.StateClosed, http.StateHijacked:
					o.Counters.Closed()
				}
			},
		},
	}
	return h, nil
}

// Serve starts to answer requests with handler, and returns at once. Call it once.
func (h *HTTPS) Serve(handler http.Handler) {
	h.server.Handler, h.served = handler, make(chan struct{})
	go func() {
		defer close(h.served)
		_ = h.server.ServeTLS(h.listener, "", "") // ends with Close
	}()
}

type connKey struct{}

// URL returns the server's URL: https, address and port.
func (h *HTTPS) URL() string { return "https://" + h.listener.Addr().String() }

// CA returns the certificate of the server's authority in PEM.
func (h *HTTPS) CA() []byte { return h.ca }

// Pause waits for d in a handler. It ends the handler if the client leaves or the server closes.
func (h *HTTPS) Pause(r *http.Request, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
		panic(http.ErrAbortHandler) // no answer, not even an empty one
	case <-h.closing:
		panic(http.ErrAbortHandler)
	}
}

// Fail ends a handler: it breaks the connection, or for BlackHole never answers. net/http does not
// give access to the streams of HTTP/2, so GoAway and GoAwayUnprocessed break the connection.
// Answer.Accepts says whether the push was accepted.
func (h *HTTPS) Fail(r *http.Request, fault Fault) {
	if fault == BlackHole {
		select {
		case <-r.Context().Done():
		case <-h.closing:
		}
	} else if c, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		_ = c.Close()
	}
	panic(http.ErrAbortHandler)
}

// Close breaks every connection and ends the server. It may be called again.
func (h *HTTPS) Close() error {
	var err error
	h.once.Do(func() {
		close(h.closing)
		if h.served == nil {
			err = h.listener.Close()
			return
		}
		err = h.server.Close()
		<-h.served
	})
	return err
}

// WritePage writes a proxy's HTML page with the status, 502 if that is 0.
func WritePage(w http.ResponseWriter, status int) {
	status = cmp.Or(status, http.StatusBadGateway)
	w.Header().Set("Content-Type", "text/html; charset=UTF-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<html><head><title>%d %s</title></head><body><h1>%[2]s</h1></body></html>\n", status, http.StatusText(status))
}
