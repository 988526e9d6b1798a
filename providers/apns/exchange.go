package apns

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/pushpace/pushpace/providers"
)

// maxAnswer bounds the body of an answer; APNs' bodies have about 60 bytes.
const maxAnswer = 4 << 10

// An exchange passes data to the transport that apns2 does not pass, and returns data
// that apns2 hides.
type exchange struct {
	// payload is the rendered body, unchanged: apns2 would escape <, > and & in it.
	payload   []byte
	departure providers.Departure

	conn *http.ClientConn
	// authorization is the header that was sent.
	authorization string
	// status is 0 until there is an answer.
	status     int
	id         string
	retryAfter time.Duration
}

type exchangeKey struct{}

// exchangeOf returns the request's exchange. Every request has one, because Send makes it.
func exchangeOf(r *http.Request) *exchange { return r.Context().Value(exchangeKey{}).(*exchange) }

// with returns a context that carries x.
func (x *exchange) with(ctx context.Context) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// observed is a round tripper that fills in the exchange.
type observed struct{ next *connections }

// RoundTrip implements http.RoundTripper.
func (o observed) RoundTrip(r *http.Request) (*http.Response, error) {
	x := exchangeOf(r)
	sent := r.WithContext(r.Context())
	sent.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(x.payload)), nil }
	sent.Body, _ = sent.GetBody()
	sent.ContentLength = int64(len(x.payload))
	x.authorization = r.Header.Get("Authorization")

	response, err := providers.TraceRequest(sent, o.next.RoundTrip)
	if err != nil {
		return nil, err
	}
	x.status = response.StatusCode
	x.id = response.Header.Get("Apns-Id")
	x.retryAfter = providers.RetryAfter(response.Header, time.Now())
	response.Body = bounded{io.LimitReader(response.Body, maxAnswer), response.Body}
	return response, nil
}

// CloseIdleConnections is called by apns2.Client.
func (o observed) CloseIdleConnections() { o.next.CloseIdleConnections() }

// bounded is a body, cut off at maxAnswer.
type bounded struct {
	io.Reader
	io.Closer
}
