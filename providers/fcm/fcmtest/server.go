// Package fcmtest is a stand-in for Firebase Cloud Messaging, as httptest is
// for a server: the OAuth token endpoint and the v1 API's send method, over
// TLS, with HTTP/2 and HTTP/1.1, on a free port of the loopback.
//
// Like FCM, it verifies the assertion, the access token and the message,
// and answers as FCM does: a registration token in fid is UNREGISTERED, a FID in
// token is accepted. Trouble is scripted with Respond, or chosen by the token or
// FID, as standin.ByToken says.
package fcmtest

import (
	"cmp"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pushpace/pushpace/providers/standin"
)

// DefaultProject is the project that a server serves unless Options say
// otherwise.
const DefaultProject = "pushpace-test"

// streams is the most requests that Google allows at once on a connection.
const streams = 100

// Options are the options of a server. The zero value is ready to use.
type Options struct {
	// Address to listen on. Empty means a free port of 127.0.0.1.
	Address string
	// Projects are the IDs of the projects it serves, the first being the
	// service account's. Empty means DefaultProject alone.
	Projects []string
	// Ledger records the accepted messages. Nil means a new ledger in memory.
	Ledger *standin.Ledger
	// Latency is how long each answer takes.
	Latency standin.Latency
	// TokenLifetime is how long an access token is valid, in whole seconds. Zero
	// means an hour, as with Google.
	TokenLifetime time.Duration
	// HTTP1 disables HTTP/2.
	HTTP1 bool
	// Seen is called with the body of every send request, as it came in, before
	// it is answered. It may be called by several goroutines at once.
	Seen func(body []byte)
}

// serviceKey is the service account's key. It takes a while to make, so the
// servers of one process share it.
var serviceKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// A Server is a running stand-in. Its Script says how it answers messages, and
// its Counters count them. It is safe for concurrent use.
type Server struct {
	standin.Script
	standin.Counters
	// HTTPS is the HTTP server: its URL is the value of fcm.Config.Endpoint.
	*standin.HTTPS
	// TokenScript sets the answers to requests for an access token, under the empty token.
	TokenScript standin.Script

	key      *rsa.PrivateKey
	projects []string
	ledger   *standin.Ledger
	latency  func() time.Duration
	seen     func(body []byte)
	names    atomic.Uint64

	access accessTokens
}

// NewServer starts a server with its own certificate authority and service account. Close it.
func NewServer(o Options) (*Server, error) {
	key, err := serviceKey()
	if err != nil {
		return nil, fmt.Errorf("fcmtest: make the service account's key: %w", err)
	}
	s := &Server{
		key:      key,
		projects: slices.Clone(o.Projects),
		ledger:   cmp.Or(o.Ledger, standin.NewLedger(nil)),
		latency:  o.Latency.Draws(),
		seen:     o.Seen,
		access:   accessTokens{lifetime: cmp.Or(o.TokenLifetime, time.Hour)},
	}
	if len(s.projects) == 0 {
		s.projects = []string{DefaultProject}
	}
	s.HTTPS, err = standin.NewHTTPS(standin.HTTPSOptions{
		Address: o.Address, HTTP1: o.HTTP1, Streams: streams, Counters: &s.Counters,
	})
	if err != nil {
		return nil, fmt.Errorf("fcmtest: %w", err)
	}
	s.Serve(s.routes())
	return s, nil
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", s.serveToken)
	mux.HandleFunc("POST /v1/projects/{project}/{method}", s.serveSend)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		standin.WritePage(w, http.StatusNotFound) // as Google's front end does
	})
	return mux
}

// Project returns the service account's project.
func (s *Server) Project() string { return s.projects[0] }

// Ledger returns the record of the accepted messages.
func (s *Server) Ledger() *standin.Ledger { return s.ledger }

// ExpireTokens makes every access token that was issued invalid.
func (s *Server) ExpireTokens() { s.access.expire() }

// TokensIssued returns how many access tokens were issued.
func (s *Server) TokensIssued() int64 { return s.access.issued.Load() }

// Close breaks every connection and ends the server. It returns the ledger's
// error, if it has one.
func (s *Server) Close() error {
	return errors.Join(s.HTTPS.Close(), s.ledger.Err())
}
