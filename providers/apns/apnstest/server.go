// Package apnstest is a stand-in for Apple's push service, as httptest is for a
// web server: TLS and HTTP/2 on a loopback port, authentication, APNs' checks
// and answers, faults of the connection, and a ledger of accepted pushes.
//
// A new connection has one stream until its first authenticated request, then
// Options.Streams. Flow control towards the client is left out: no answer has
// more than a few hundred bytes.
package apnstest

import (
	"crypto/ecdsa"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/pushpace/pushpace/providers/standin"
)

// Options are the options of a Server. The zero value is ready to use.
type Options struct {
	// Address to listen on. Empty means a free port of 127.0.0.1.
	Address string
	// Streams is how many pushes one connection carries at once. 0 means 1000.
	Streams uint32
	// Latency is how long answers take.
	Latency standin.Latency
	// Ledger gets every accepted push. Nil means a ledger in memory.
	Ledger *standin.Ledger
	// Topics are the bundle IDs that may be pushed to. Empty means any.
	Topics []string
}

// A Server is a running stand-in. Its Script sets its answers.
type Server struct {
	standin.Script
	standin.Counters

	options  Options
	ledger   *standin.Ledger
	latency  func() time.Duration
	topics   map[string]bool
	listener net.Listener
	config   *tls.Config
	identity *identity
	tokens   *tokenChecker

	serving sync.WaitGroup
	mu      sync.Mutex
	closed  bool
	conns   map[*conn]bool
}

// NewServer starts a server with its own certificate authority and credentials. Close it.
func NewServer(options Options) (*Server, error) {
	if options.Address == "" {
		options.Address = "127.0.0.1:0"
	}
	if options.Streams == 0 {
		options.Streams = 1000
	}
	if options.Ledger == nil {
		options.Ledger = standin.NewLedger(nil)
	}
	id, err := newIdentity()
	if err != nil {
		return nil, fmt.Errorf("apnstest: %w", err)
	}
	listener, err := net.Listen("tcp", options.Address)
	if err != nil {
		return nil, fmt.Errorf("apnstest: %w", err)
	}
	s := &Server{
		options:  options,
		ledger:   options.Ledger,
		latency:  options.Latency.Draws(),
		topics:   make(map[string]bool),
		listener: listener,
		config:   id.serverConfig(),
		identity: id,
		tokens:   &tokenChecker{keys: map[string]*ecdsa.PublicKey{KeyID: &id.key.PublicKey}},
		conns:    make(map[*conn]bool),
	}
	for _, topic := range options.Topics {
		s.topics[topic] = true
	}
	s.serving.Go(s.serve)
	return s, nil
}

// URL returns the server's address in the form of Config.Endpoint.
func (s *Server) URL() string { return "https://" + s.listener.Addr().String() }

// Ledger returns the ledger of accepted pushes.
func (s *Server) Ledger() *standin.Ledger { return s.ledger }

// ExpireTokens makes every provider token that was used so far expired.
func (s *Server) ExpireTokens() { s.tokens.expire() }

// Close breaks all connections and waits until the server has stopped.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	err := s.listener.Close()
	for _, c := range conns {
		c.abort()
	}
	s.serving.Wait()
	return err
}

// serve accepts connections until the listener is closed.
func (s *Server) serve() {
	for {
		nc, err := s.listener.Accept()
		if err != nil {
			return
		}
		c := newConn(s, nc)
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			_ = nc.Close()
			return
		}
		s.conns[c] = true
		s.mu.Unlock()
		s.serving.Go(func() {
			c.serve()
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		})
	}
}
