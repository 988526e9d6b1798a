package providers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"golang.org/x/net/http2"
)

// TransportOutcome returns the outcome of a request without an answer, given the
// error of an HTTP client or round tripper. Its Err leaves out the URL,
// which may hold a device token, and any text that came from the peer.
//
//   - No connection, by a proxy or without, or no TLS session: Retry, DialFailed,
//     nothing was sent.
//   - The peer's certificate cannot be verified, or ours is refused: Misconfigured.
//   - The caller's deadline passed: Retry, TimedOut, ambiguous.
//   - ErrTooLate: Retry, TooLate, nothing was sent.
//   - The caller cancelled: Retry, Cancelled, ambiguous, no concern.
//   - The stream was refused (RFC 9113, section 8.7): Retry, ConnectionLost, not
//     ambiguous.
//   - Anything else, such as EOF, a reset or GOAWAY: Retry, ConnectionLost,
//     ambiguous.
//
// A caller that knows that nothing was written, because it never got a
// connection, clears Ambiguous.
func TransportOutcome(err error) Outcome {
	// The URL and the method are of no help, and the URL may hold a token.
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	if errors.Is(err, ErrTooLate) {
		return TooLateOutcome()
	}
	if certificateRefused(err) {
		return Outcome{
			Kind: Misconfigured, Reason: TLSRefused, Concerns: ConcernsApp,
			Err: fmt.Errorf("TLS: %w: check root_ca_file, the endpoint and the certificate", harmless(err)),
		}
	}
	o := Outcome{Kind: Retry, Concerns: ConcernsProvider}
	switch {
	case neverConnected(err):
		o.Reason, o.NotSent = DialFailed, true
		o.Err = fmt.Errorf("no connection to the provider: %w", harmless(err))
	case errors.Is(err, context.Canceled):
		o.Reason, o.Ambiguous, o.Concerns = Cancelled, true, NoConcern
		o.Err = fmt.Errorf("the caller gave up before the provider answered: %w", context.Canceled)
	case isTimeout(err):
		o.Reason, o.Ambiguous = TimedOut, true
		o.Err = fmt.Errorf("no answer from the provider in time: %w", context.DeadlineExceeded)
	case streamRefused(err):
		o.Reason = ConnectionLost
		o.Err = errors.New("the provider refused the HTTP/2 stream before it read the request")
	default:
		o.Reason, o.Ambiguous = ConnectionLost, true
		o.Err = fmt.Errorf("the connection broke before the provider answered: %w", harmless(err))
	}
	return o
}

// TransportCause returns the parts of a transport error that hold neither the URL nor data from
// the peer.
func TransportCause(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	return harmless(err)
}

// neverConnected reports whether err means that the request cannot have been written: no TCP
// connection, or no TLS session on it.
func neverConnected(err error) bool {
	if proxy := (*ProxyError)(nil); errors.As(err, &proxy) {
		return true
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" {
		return true
	}
	if dns := (*net.DNSError)(nil); errors.As(err, &dns) {
		return true
	}
	// The peer speaks no TLS.
	if errors.Is(err, http.ErrSchemeMismatch) {
		return true
	}
	if record := (tls.RecordHeaderError{}); errors.As(err, &record) {
		return true
	}
	// net/http does not export the type of this error.
	return err.Error() == "net/http: TLS handshake timeout"
}

// certificateRefused reports whether one side does not accept the other's
// certificate.
func certificateRefused(err error) bool {
	if verification := (*tls.CertificateVerificationError)(nil); errors.As(err, &verification) {
		return true
	}
	// A TLS alert of the peer is an OpError with an unexported inner type.
	op := (*net.OpError)(nil)
	return errors.As(err, &op) && op.Op == "remote error" && strings.Contains(op.Err.Error(), "certificate")
}

func isTimeout(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	timeout := net.Error(nil)
	return errors.As(err, &timeout) && timeout.Timeout()
}

func streamRefused(err error) bool {
	stream := http2.StreamError{}
	return errors.As(err, &stream) && stream.Code == http2.ErrCodeRefusedStream
}

// harmless returns the part of err that is known to hold no text of the peer (net/http quotes a
// malformed answer), otherwise only the type of err.
func harmless(err error) error {
	if proxy := (*ProxyError)(nil); errors.As(err, &proxy) {
		return proxy
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		return op
	}
	if dns := (*net.DNSError)(nil); errors.As(err, &dns) {
		return dns
	}
	if authority := (x509.UnknownAuthorityError{}); errors.As(err, &authority) {
		return errors.New("the certificate is signed by an unknown authority")
	}
	if host := (x509.HostnameError{}); errors.As(err, &host) {
		return fmt.Errorf("the certificate is not for %q", host.Host)
	}
	if invalid := (x509.CertificateInvalidError{}); errors.As(err, &invalid) {
		return invalid
	}
	if stream := (http2.StreamError{}); errors.As(err, &stream) {
		return fmt.Errorf("stream reset with %v", stream.Code)
	}
	for _, known := range []error{io.ErrUnexpectedEOF, io.EOF, net.ErrClosed} {
		if errors.Is(err, known) {
			return known
		}
	}
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return errno
	}
	return fmt.Errorf("%T", err)
}
