package fcm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/fcm/internal/wire"
)

// An attempt is one request through the SDK: the body to send, and the answer. The
// request's context holds it.
//
// The SDK makes the URL and its headers. The attempt avoids its defects:
//
//   - It repeats a request up to four times, after a network error or a 503.
//     So the attempt keeps both, and the SDK gets a status that it does not
//     repeat.
//   - Its message types lose unknown fields and digits of large numbers, turn
//     "3.5s" into "3.000000005s", and panic on light_settings without a color.
//     So they carry the address only, and the attempt sends the body that package
//     push rendered.
type attempt struct {
	bearer string
	body   *providers.Body

	sent   bool // the SDK made its request
	status int
	header http.Header
	reply  []byte
	err    error
}

type attemptKey struct{}

// statusSpent is a status that the SDK treats as a failure and never repeats.
const statusSpent = 599

// roundTripper performs the attempts.
type roundTripper struct{ next http.RoundTripper }

var errNoAttempt = errors.New("fcm: the request's context holds no attempt")

// RoundTrip sends the request of the context's attempt, at most once. It answers with 599 in place
// of an error or of a 503.
func (rt roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	a, ok := r.Context().Value(attemptKey{}).(*attempt)
	if r.Body != nil {
		_ = r.Body.Close() // the SDK's, in memory
	}
	if !ok {
		return nil, errNoAttempt
	}
	if a.sent {
		// The SDK repeats the request after all, or follows a redirect: only the first request is
		// made.
		return spent(r, nil), nil
	}
	a.sent = true
	response, err := providers.TraceRequest(a.request(r), rt.next.RoundTrip)
	if err != nil {
		a.err = err
		return spent(r, nil), nil
	}
	// The body is read here, because the SDK would repeat the request after an error in reading it.
	a.status, a.header = response.StatusCode, response.Header
	a.reply, a.err = wire.ReadReply(response)
	_ = response.Body.Close()
	switch {
	case a.err != nil:
		return spent(r, nil), nil
	case a.status == http.StatusServiceUnavailable:
		return spent(r, a.reply), nil
	case a.status == http.StatusOK:
		return taken(r), nil
	}
	response.Body = io.NopCloser(bytes.NewReader(a.reply))
	return response, nil
}

// request returns r with the attempt's body and bearer. The SDK makes r for
// this one attempt, so its header may be changed.
func (a *attempt) request(r *http.Request) *http.Request {
	r.Header.Set("Authorization", "Bearer "+a.bearer)
	return a.body.Sent(r)
}

func spent(r *http.Request, body []byte) *http.Response {
	return answered(r, "599 Spent", statusSpent, body)
}

// taken returns the answer for the SDK after a message was accepted.
func taken(r *http.Request) *http.Response { return answered(r, "200 OK", http.StatusOK, []byte("{}")) }

func answered(r *http.Request, status string, code int, body []byte) *http.Response {
	return &http.Response{
		Status: status, StatusCode: code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), Request: r,
	}
}

// outcome returns the outcome of the attempt.
func (a *attempt) outcome(ctx context.Context, tokenWorked bool, now time.Time) providers.Outcome {
	switch {
	case a.body.Late():
		return providers.TooLateOutcome()
	case !a.sent:
		o := wire.Rejected(providers.Invalid)
		o.Err = errors.New("the firebase SDK refuses to send: the target has no token")
		return o
	case a.err != nil && (a.status < 200 || a.status > 299):
		// With a status but half a body the push is refused, and only the reason is lost.
		o := providers.TransportOutcome(cause(ctx, a.err))
		o.Ambiguous = o.Ambiguous && a.body.Wrote() && a.status == 0
		return o
	}
	said := wire.ReadAnswer(a.status, a.header, a.reply, now)
	said.TokenWorked = tokenWorked
	return wire.Classify(said)
}

// cause returns ctx's error if ctx has ended, because a transport may report the end by a different
// error; otherwise err.
func cause(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	return err
}
