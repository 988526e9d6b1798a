package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/pushpace/pushpace/internal/config"
)

// A Server serves the API on an address.
type Server struct {
	listener    net.Listener
	http        *http.Server
	certificate *certificate // nil without TLS
	done        chan error
}

const (
	headerTimeout = 5 * time.Second
	idleTimeout   = 2 * time.Minute
	// maxHeader bounds a request's header, in bytes; net/http adds 4 KiB.
	maxHeader = 12 << 10
	// writeTime bounds the sending of an answer, in addition to the time of making it.
	writeTime = 10 * time.Second
)

// Listen opens the listener for Serve.
func Listen(o config.HTTP) (net.Listener, error) {
	listener, err := net.Listen("tcp", string(o.Listen))
	if err != nil {
		return nil, fmt.Errorf("http.listen: %w", err)
	}
	return listener, nil
}

// Serve starts to answer requests. It closes the listener, even if it fails.
func Serve(listener net.Listener, o config.HTTP, handler http.Handler, log *slog.Logger) (*Server, error) {
	s := &Server{
		listener: listener,
		http: &http.Server{
			Handler: handler, MaxHeaderBytes: maxHeader, IdleTimeout: idleTimeout,
			ReadHeaderTimeout: min(headerTimeout, o.ReadTimeout), ReadTimeout: o.ReadTimeout,
			WriteTimeout: o.ReadTimeout + o.Timeout + writeTime,
			ErrorLog:     slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		},
		done: make(chan error, 1),
	}
	if !o.TLS.Enabled() {
		go func() { s.done <- s.http.Serve(s.listener) }()
		return s, nil
	}
	var err error
	if s.certificate, err = watchCertificate(o.TLS, log); err != nil {
		_ = s.listener.Close()
		return nil, fmt.Errorf("http.tls: %w", err)
	}
	s.http.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.certificate.get}
	go func() { s.done <- s.http.ServeTLS(s.listener, "", "") }()
	return s, nil
}

// Addr returns the server's address.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// URL returns the server's URL.
func (s *Server) URL() string {
	scheme := "http"
	if s.certificate != nil {
		scheme = "https"
	}
	return scheme + "://" + s.Addr()
}

// Shutdown stops accepting, waits for the requests in flight, and cuts them off when ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if s.certificate != nil {
		s.certificate.close()
	}
	return err
}
