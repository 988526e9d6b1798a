package providers

import (
	"io"
	"net/http"
	"sync/atomic"
)

// A Body is the body of a request. It starts its Departure once there is a connection.
type Body struct {
	departure Departure
	content   []byte
	connected func()
	wrote     atomic.Bool
	late      atomic.Bool
}

// NewBody returns a body for one request. It calls connected once there is a connection.
func NewBody(departure Departure, content []byte, connected func()) *Body {
	return &Body{departure: departure, content: content, connected: connected}
}

// Sent returns r with the body.
func (b *Body) Sent(r *http.Request) *http.Request {
	sent := r.WithContext(r.Context())
	sent.ContentLength = int64(len(b.content))
	sent.GetBody = func() (io.ReadCloser, error) { return &bodyReader{body: b, left: b.content}, nil }
	sent.Body, _ = sent.GetBody()
	return sent
}

// Wrote reports whether the transport has begun to read the body, which it does after it has
// written the headers. It may begin while the request is given up.
func (b *Body) Wrote() bool { return b.wrote.Load() }

// Late reports whether it was too late to write the body.
func (b *Body) Late() bool { return b.late.Load() }

// start reports whether the body may be written, now that there is a connection.
func (b *Body) start() bool {
	if b.wrote.Swap(true) {
		b.departure.Undo() // the server refused the request over the last connection
	} else {
		b.connected()
	}
	late := !b.departure.Start()
	b.late.Store(late)
	return !late
}

// A bodyReader is the body on its way to one connection.
type bodyReader struct {
	body  *Body
	left  []byte
	begun bool
}

func (r *bodyReader) Read(p []byte) (int, error) {
	if !r.begun {
		r.begun = true
		if !r.body.start() {
			return 0, ErrTooLate // an incomplete request is void
		}
	}
	if len(r.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	if len(r.left) == 0 {
		return n, io.EOF
	}
	return n, nil
}

func (r *bodyReader) Close() error { return nil }
