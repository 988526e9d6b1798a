package apns

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"github.com/pushpace/pushpace/internal/base/batchconn"
	"github.com/pushpace/pushpace/providers"
)

const (
	// maxConnections bounds the connections of one Sender. A connection carries about a thousand
	// pushes at once, and fewer for some time after APNs refused pushes.
	maxConnections = 4
	// connectTimeout bounds dialling and the TLS handshake.
	connectTimeout = 5 * time.Second
	// firstAnswerWait is the time without an answer after which a new connection carries twice as
	// many requests. The requests on a stuck connection are ambiguous, the waiting requests are
	// not.
	firstAnswerWait = time.Second
	// returnWait is how long no waiting request is woken after one could not leave in time. That
	// request may renew its time and take the new connection meanwhile.
	returnWait = 50 * time.Millisecond
	// idleTimeout closes an idle connection. Apple asks to keep connections for hours to days.
	idleTimeout = time.Hour
	// pingInterval and pingTimeout find a connection that broke silently.
	pingInterval = 15 * time.Second
	pingTimeout  = 5 * time.Second
	// maxRefusals is how often a request that the server did not process is
	// put on another connection.
	maxRefusals = 2
)

// connections is the round tripper to APNs over a few HTTP/2 connections. A new connection carries
// a single request until the first answer: APNs allows it one stream, and more once it knows the
// sender. Otherwise a burst would open a connection for each push, and APNs would refuse most.
//
// It puts a request on another connection only if the server says that it has not processed the
// request. If nothing was sent, the error is an *unsentError.
type connections struct {
	transport *http.Transport
	address   string

	ctx    context.Context // ends with close
	cancel context.CancelFunc
	dials  sync.WaitGroup
	// changed wakes one goroutine that waits for a connection, which wakes the next.
	changed chan struct{}

	mu      sync.Mutex
	open    []*http.ClientConn
	opening *opening // nil if no connection is being opened
	// generation counts the calls of renew.
	generation int
}

// An opening is a connection from the start of the dial to its first answer.
// Guarded by connections.mu.
type opening struct {
	generation    int              // connections.generation at the start of the dial
	conn          *http.ClientConn // nil while dialling
	carries, most int              // requests on the connection, and their bound
	err           error            // why the dial failed
	waiting       *time.Timer      // calls widen
}

// An unsentError means that the server certainly has not processed a request.
type unsentError struct{ cause error }

func (e *unsentError) Error() string { return "not sent: " + e.cause.Error() }
func (e *unsentError) Unwrap() error { return e.cause }

var errSenderClosed = fmt.Errorf("the sender is closed: %w", context.Canceled)

// newConnections returns the round tripper to host, an https URL. It dials when
// the first request needs it.
func newConnections(host string, config *tls.Config, proxy *providers.Proxy) (*connections, error) {
	u, err := url.Parse(host)
	if err != nil {
		return nil, err
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	c := &connections{
		transport: &http.Transport{
			DialContext:            batched(proxy.Dialing(new(net.Dialer).DialContext)),
			TLSClientConfig:        config,
			Protocols:              protocols,
			TLSHandshakeTimeout:    connectTimeout,
			IdleConnTimeout:        idleTimeout,
			MaxResponseHeaderBytes: 16 << 10,
			DisableCompression:     true,
			HTTP2: &http.HTTP2Config{
				SendPingTimeout: pingInterval,
				PingTimeout:     pingTimeout,
			},
		},
		address: net.JoinHostPort(u.Hostname(), port),
		changed: make(chan struct{}, 1),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

func batched(dial providers.DialFunc) providers.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return batchconn.New(conn), nil
	}
}

// RoundTrip implements http.RoundTripper.
func (c *connections) RoundTrip(r *http.Request) (*http.Response, error) {
	x := exchangeOf(r)
	for refusals := 0; ; refusals++ {
		conn, o, err := c.take(r.Context(), x.departure)
		if err != nil {
			return nil, &unsentError{err}
		}
		if !x.departure.Start() {
			c.release(conn, o)
			return nil, &unsentError{providers.ErrTooLate}
		}
		x.conn = conn
		response, err := conn.RoundTrip(r)
		if o != nil && (err == nil || r.Context().Err() == nil) { // a time-out is no answer
			c.settle(o)
		}
		if err == nil {
			return response, nil
		}
		unprocessed, again := notProcessed(err)
		if !unprocessed {
			return nil, err
		}
		x.departure.Undo()
		if !again || refusals == maxRefusals || r.GetBody == nil {
			return nil, &unsentError{err}
		}
		body, bodyErr := r.GetBody()
		if bodyErr != nil {
			return nil, &unsentError{bodyErr}
		}
		r = r.WithContext(r.Context())
		r.Body = body
	}
}

// CloseIdleConnections is called by apns2.Client.
func (c *connections) CloseIdleConnections() { c.transport.CloseIdleConnections() }

// take reserves a stream, and opens a connection if needed. For a connection without an answer, it
// also returns the opening.
func (c *connections) take(ctx context.Context, departure providers.Departure) (*http.ClientConn, *opening, error) {
	var seen *opening
	for ctx.Err() == nil {
		conn, o, err := c.tryTake(departure, seen)
		if errors.Is(err, providers.ErrTooLate) {
			// The waiting requests cannot leave in time either: none is woken while this request
			// may try again.
			time.AfterFunc(returnWait, c.wake)
			return nil, nil, err
		}
		if conn != nil || err != nil {
			c.wake()
			return conn, o, err
		}
		seen = o
		select {
		case <-c.changed:
		case <-ctx.Done():
		}
	}
	c.wake()
	return nil, nil, ctx.Err()
}

// tryTake does the work of take without waiting. If it returns neither a connection nor an error,
// it returns the opening to wait for, or nil if there is none. seen is the opening for which the
// caller has waited: if it failed, tryTake returns its error.
func (c *connections) tryTake(departure providers.Departure, seen *opening) (*http.ClientConn, *opening, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return nil, nil, errSenderClosed
	}
	c.open = slices.DeleteFunc(c.open, func(conn *http.ClientConn) bool { return conn.Err() != nil })
	for _, conn := range c.open {
		if conn.Reserve() == nil {
			return conn, nil, nil
		}
	}
	if o := c.opening; o != nil && o.conn != nil && o.carries < o.most {
		if departure.TooLate() {
			return nil, nil, providers.ErrTooLate
		}
		if o.generation == c.generation && o.conn.Reserve() == nil {
			if o.carries++; o.carries == 1 {
				o.waiting = time.AfterFunc(firstAnswerWait, func() { c.widen(o) })
			}
			return o.conn, o, nil
		}
		if o.carries == 0 { // the connection broke before use, or belongs to a former credential
			_ = o.conn.Close()
			c.opening = nil
		}
	}
	if seen != nil && seen.err != nil {
		return nil, nil, seen.err
	}
	if c.opening == nil && len(c.open) < maxConnections {
		o := &opening{generation: c.generation, most: 1}
		c.opening = o
		c.dials.Go(func() { c.dial(o) })
	}
	return nil, c.opening, nil
}

// dial makes the connection of o. It continues if the first request gives up: the next request
// needs the connection as well.
func (c *connections) dial(o *opening) {
	ctx, cancel := context.WithTimeout(c.ctx, connectTimeout)
	defer cancel()
	conn, err := c.transport.NewClientConn(ctx, "https", c.address)
	if err == nil {
		conn.SetStateHook(func(*http.ClientConn) { c.wake() })
	}
	if errors.Is(err, context.DeadlineExceeded) {
		// DeadlineExceeded alone would mean the deadline of a request.
		err = &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	c.mu.Lock()
	switch {
	case err != nil:
		o.err, c.opening = err, nil
	case c.ctx.Err() != nil:
		o.err, c.opening = errSenderClosed, nil
		defer func() { _ = conn.Close() }()
	default:
		o.conn = conn
	}
	c.mu.Unlock()
	c.wake()
}

// release gives back an unused stream.
func (c *connections) release(conn *http.ClientConn, o *opening) {
	if o != nil {
		c.mu.Lock()
		if o.carries--; o.carries == 0 { // the next request is the first
			o.waiting.Stop()
		}
		c.mu.Unlock()
	}
	conn.Release()
	c.wake()
}

// widen doubles the requests that the connection of o may carry while there is no answer. A full
// connection counts as open, so that a second one is opened.
func (c *connections) widen(o *opening) {
	c.mu.Lock()
	unanswered := c.opening == o && o.carries > 0
	more := unanswered && o.generation == c.generation && o.most < o.conn.Available()
	if more {
		o.most *= 2
		o.waiting.Reset(firstAnswerWait)
	}
	c.mu.Unlock()
	switch {
	case more:
		c.wake()
	case unanswered:
		c.settle(o)
	}
}

// settle makes the connection of o available to all requests.
func (c *connections) settle(o *opening) {
	c.mu.Lock()
	outdated := o.generation != c.generation
	if c.opening == o {
		c.opening = nil
		if !outdated {
			c.open = append(c.open, o.conn)
		}
	}
	o.waiting.Stop()
	c.mu.Unlock()
	if outdated {
		closeWhenDone(o.conn)
	}
	c.wake()
}

// wake wakes one goroutine that waits for a connection.
func (c *connections) wake() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// retire takes conn out of use: it closes after its last answer.
func (c *connections) retire(conn *http.ClientConn) {
	c.mu.Lock()
	c.open = slices.DeleteFunc(c.open, func(other *http.ClientConn) bool { return other == conn })
	c.mu.Unlock()
	closeWhenDone(conn)
	c.wake()
}

// renew retires all connections, also a connection that is being opened.
func (c *connections) renew() {
	c.mu.Lock()
	c.generation++
	conns := c.open
	c.open = nil
	c.mu.Unlock()
	for _, conn := range conns {
		closeWhenDone(conn)
	}
	c.wake()
}

func closeWhenDone(conn *http.ClientConn) {
	closeIfIdle := func(conn *http.ClientConn) {
		if conn.InFlight() == 0 {
			_ = conn.Close()
		}
	}
	conn.SetStateHook(closeIfIdle)
	closeIfIdle(conn)
}

// close breaks the connections. Requests in flight fail.
func (c *connections) close() {
	c.mu.Lock()
	c.cancel()
	conns := c.open
	c.open = nil
	if o := c.opening; o != nil && o.conn != nil {
		conns = append(conns, o.conn)
	}
	c.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
	}
	c.dials.Wait()
	c.wake()
}

// notProcessed reports whether err means that the server has not processed the request, and whether
// another connection may take it.
func notProcessed(err error) (unprocessed, again bool) {
	var stream http2.StreamError
	if errors.As(err, &stream) {
		refused := stream.Code == http2.ErrCodeRefusedStream
		return refused, refused
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return false, false
	}
	// net/http does not export these errors.
	switch text := err.Error(); text {
	case "http2: Transport received Server's graceful shutdown GOAWAY",
		"http2: client conn not usable",
		"http2: client conn could not be established":
		return true, true
	default:
		// GOAWAY with an error below a connection's first stream: another connection would get the
		// same error.
		const first = "http2: Transport received GOAWAY from server"
		return strings.HasPrefix(text, first), false
	}
}
