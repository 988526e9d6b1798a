// Package webpushtest is a stand-in for the push services of Web Push. Start with NewServer. It
// serves TLS, with HTTP/2 and HTTP/1.1, on a free port of the loopback. The request's Host
// selects the service: Google, Mozilla, Apple or Windows; any other follows RFC 8030.
//
// It decrypts pushes with the keys of each subscription from Subscription. It checks the token and
// its key, the header and the body, and answers as the services do. Respond scripts other answers
// by endpoint; the name in the endpoint can select an answer too (see standin.ByToken).
package webpushtest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/providers/webpush"
	"github.com/pushpace/pushpace/push"
)

// streams bounds the concurrent requests of a connection.
const streams = 100

const (
	// maxReceivers bounds the receivers remembered.
	maxReceivers = 16 << 10
	// maxUsed bounds the salts and keys remembered.
	maxUsed = 128 << 10
)

// Options configure a server. The zero value is ready to use.
type Options struct {
	// Address to listen on. Empty means a free port of 127.0.0.1.
	Address string
	// PublicKeys are further keys of subscriptions, as webpush.Key.Public returns them, besides
	// the key of WriteCredentials.
	PublicKeys []string
	// Ledger records the accepted pushes. Nil means a new ledger in memory.
	Ledger *standin.Ledger
	// Latency delays each answer.
	Latency standin.Latency
	// HTTP1 disables HTTP/2.
	HTTP1 bool
	// Seen is called with each push that passes the checks, before it is answered. It may be
	// called by several goroutines at once.
	Seen func(Push)
}

// A Server is a running stand-in. Its Script selects answers by endpoint, and its Counters count
// pushes. It is safe for concurrent use.
type Server struct {
	standin.Script
	standin.Counters
	// HTTPS is the listening server: its URL is the value of webpush.Config.Endpoint.
	*standin.HTTPS

	key       *webpush.Key
	keys      []string
	ledger    *standin.Ledger
	latency   func() time.Duration
	seen      func(Push)
	tokens    *tokens
	receivers *lru.Cache[string, receiver]
	used      *lru.Cache[string, struct{}] // salts and senders' keys
	names     atomic.Uint64
}

// NewServer starts a server with its own certificate authority and app's key. Close it.
func NewServer(o Options) (*Server, error) {
	key, err := webpush.GenerateKey()
	if err != nil {
		return nil, fmt.Errorf("webpushtest: make a key: %w", err)
	}
	receivers, _ := lru.New[string, receiver](maxReceivers) // only a size of 0 fails
	used, _ := lru.New[string, struct{}](maxUsed)
	s := &Server{
		key: key, keys: append(slices.Clone(o.PublicKeys), key.Public()),
		ledger: cmp.Or(o.Ledger, standin.NewLedger(nil)), latency: o.Latency.Draws(), seen: o.Seen,
		tokens: newTokens(), receivers: receivers, used: used,
	}
	s.HTTPS, err = standin.NewHTTPS(standin.HTTPSOptions{Address: o.Address, HTTP1: o.HTTP1, Streams: streams, Counters: &s.Counters})
	if err != nil {
		return nil, fmt.Errorf("webpushtest: %w", err)
	}
	s.Serve(http.HandlerFunc(s.serve))
	return s, nil
}

// receiver returns the receiver at an endpoint.
func (s *Server) receiver(endpoint string) receiver {
	if r, ok := s.receivers.Get(endpoint); ok {
		return r
	}
	r := receiverAt(endpoint)
	s.receivers.Add(endpoint, r)
	return r
}

// serve handles a push.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	host := strings.ToLower(r.Host)
	if name, port, err := net.SplitHostPort(host); err == nil && port != "443" {
		host = name
	}
	if r.Method == http.MethodGet { // a probe of the server
		w.WriteHeader(http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		panic(http.ErrAbortHandler) // a late sender breaks off the body
	}
	s.Begin()
	defer s.End()
	endpoint := "https://" + host + r.URL.RequestURI()
	request := &request{
		service: push.Target{Platform: push.PlatformWebPush, Token: endpoint}.Service(), host: host, endpoint: endpoint, name: nameIn(r.URL),
		method: r.Method, header: r.Header, body: body,
	}
	if refused := s.check(request, time.Now()); refused != nil {
		refused.write(w, request.service)
		return
	}
	if s.seen != nil {
		s.seen(Push{Endpoint: request.endpoint, Header: r.Header, Payload: request.payload})
	}
	s.answer(w, r, request, s.NextBy(request.endpoint, request.name))
}

// answer answers a valid push as the script says.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, request *request, answer standin.Answer) {
	entry := standin.Entry{
		At: time.Now(), Platform: string(push.PlatformWebPush), App: request.key, Token: request.endpoint,
		Notification: standin.NotificationID(request.payload), PayloadBytes: len(request.payload),
	}
	if request.service == push.WebPushApple {
		entry.APNsID = strings.ToUpper(uuid.NewString())
	} else {
		entry.Name = fmt.Sprintf("0:%016x", s.names.Add(1))
	}
	if answer.Accepts() {
		s.ledger.Add(entry)
	}
	s.Pause(r, s.latency()+answer.Delay)
	switch answer.Fault {
	case standin.NoFault:
	case standin.Drain:
		w.Header().Set("Connection", "close") // a GOAWAY, in HTTP/2
	case standin.Page:
		standin.WritePage(w, answer.Status)
		return
	default:
		s.Fail(r, answer.Fault)
		return
	}
	if answer.Accepts() {
		accept(w, request, entry)
		return
	}
	if v := answer.RetryAfterHeader(time.Now()); v != "" {
		w.Header().Set("Retry-After", v)
	}
	scriptedRefusal(request.service, answer).write(w, request.service)
}

// accept answers that the push is accepted. Source: RFC 8030, section 5.
func accept(w http.ResponseWriter, request *request, entry standin.Entry) {
	h := w.Header()
	switch request.service {
	case push.WebPushApple:
		h.Set("apns-id", entry.APNsID)
	case push.WebPushWindows:
		h.Set("X-WNS-MSG-ID", entry.Name)
		h.Set("X-WNS-STATUS", "received")
	default:
		h.Set("Location", "https://"+request.host+"/m/"+entry.Name)
		h.Set("TTL", request.header.Get("TTL"))
	}
	w.WriteHeader(http.StatusCreated)
}

// WriteCredentials writes the subscriptions' private key and the certificate of the server's
// authority into dir. It returns a sender's configuration that uses them and allows every host.
func (s *Server) WriteCredentials(dir string) (webpush.Config, error) {
	text, err := s.key.PEM()
	if err != nil {
		return webpush.Config{}, fmt.Errorf("webpushtest: %w", err)
	}
	c := webpush.Config{
		Subject:        "mailto:push@example.com",
		PrivateKeyFile: filepath.Join(dir, "vapid.pem"),
		RootCAFile:     filepath.Join(dir, "webpush-root-ca.pem"),
		Endpoint:       s.URL(),
		Hosts:          []string{"*"},
	}
	if err := os.WriteFile(c.PrivateKeyFile, text, 0o600); err != nil {
		return webpush.Config{}, fmt.Errorf("webpushtest: %w", err)
	}
	if err := os.WriteFile(c.RootCAFile, s.CA(), 0o644); err != nil {
		return webpush.Config{}, fmt.Errorf("webpushtest: %w", err)
	}
	return c, nil
}

// Ledger returns the ledger of accepted pushes.
func (s *Server) Ledger() *standin.Ledger { return s.ledger }

// TokensReceived returns how many different tokens senders have presented to the service.
func (s *Server) TokensReceived(service push.Platform) int {
	s.tokens.mu.Lock()
	defer s.tokens.mu.Unlock()
	return s.tokens.count[service]
}

// ExpireTokens makes the server refuse every token presented so far.
func (s *Server) ExpireTokens() { s.tokens.expire() }

// Close breaks every connection and stops the server. It returns the ledger's error, if any.
func (s *Server) Close() error {
	return errors.Join(s.HTTPS.Close(), s.ledger.Err())
}
