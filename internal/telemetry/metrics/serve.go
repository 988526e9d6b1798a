package metrics

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A Server answers GET /metrics and other paths over HTTP.
type Server struct {
	listener net.Listener
	http     *http.Server
	done     chan error
}

const (
	readTimeout  = 5 * time.Second
	writeTimeout = 10 * time.Second
	idleTimeout  = 2 * time.Minute // more than a scrape's usual interval
	closeTimeout = time.Second
	maxHeader    = 16 << 10
	// scrapes is the most scrapes answered at once; further ones get 503.
	scrapes = 4
)

// Serve answers GET /metrics on the listener. rest answers the other paths; a nil rest means 404.
func (m *Metrics) Serve(listener net.Listener, rest http.Handler) *Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: scrapes}))
	if rest != nil {
		mux.Handle("/", rest)
	}
	s := &Server{
		listener: listener,
		http: &http.Server{
			Handler: mux, ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout,
			WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		},
		done: make(chan error, 1),
	}
	go func() { s.done <- s.http.Serve(listener) }()
	return s
}

// Addr returns the server's address.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close ends the server. A running scrape has a second to finish.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
