package fcm

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/providers"
)

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Whatever comes back, the SDK sees nothing that it would repeat; and if it
// repeats all the same, nothing goes over the wire.
func TestOneAttempt(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]roundTripFunc{
		"error": func(*http.Request) (*http.Response, error) { return nil, io.EOF },
		"ended": func(*http.Request) (*http.Response, error) { return nil, context.Canceled },
		"503": func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
		},
		"half a body": func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, ContentLength: -1, Body: io.NopCloser(&half{}), Request: r}, nil
		},
	} {
		requests := 0
		rt := roundTripper{roundTripFunc(func(r *http.Request) (*http.Response, error) {
			requests++
			return next(r)
		})}
		a := &attempt{body: providers.NewBody(providers.Departure{}, nil, func() {})}
		for range 3 {
			r, err := http.NewRequestWithContext(context.WithValue(t.Context(), attemptKey{}, a), http.MethodPost, "https://example.com", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			response, err := rt.RoundTrip(r)
			if err != nil || response.StatusCode != statusSpent {
				t.Fatalf("%s: the SDK gets %+v, %v", name, response, err)
			}
			_ = response.Body.Close()
		}
		if requests != 1 {
			t.Errorf("%s: %d requests, want 1", name, requests)
		}
	}
}

type half struct{ read bool }

func (h *half) Read(b []byte) (int, error) {
	if h.read {
		return 0, io.ErrUnexpectedEOF
	}
	h.read = true
	return copy(b, `{"name`), nil
}

func TestRequestOfNobody(t *testing.T) {
	t.Parallel()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	rt := roundTripper{roundTripFunc(func(*http.Request) (*http.Response, error) {
		t.Error("it was sent")
		return nil, io.EOF
	})}
	if _, err := rt.RoundTrip(r); !errors.Is(err, errNoAttempt) {
		t.Errorf("error %v", err)
	}
}
