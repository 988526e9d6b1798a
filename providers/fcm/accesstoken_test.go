package fcm

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/oauth2/jwt"

	"github.com/pushpace/pushpace/providers"
)

// An endpoint answers requests for an access token in memory, after its latency.
type endpoint struct {
	mu      sync.Mutex
	asked   int
	latency time.Duration
	answer  func(n int) (status int, body string)
}

func (e *endpoint) RoundTrip(r *http.Request) (*http.Response, error) {
	e.mu.Lock()
	e.asked++
	n, latency := e.asked, e.latency
	e.mu.Unlock()
	select {
	case <-time.After(latency):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	status, body := http.StatusOK, fmt.Sprintf(`{"access_token":"token-%d","expires_in":3600}`, n)
	if e.answer != nil {
		status, body = e.answer(n)
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

var testKey = sync.OnceValue(func() []byte {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
})

func newTokens(t *testing.T, e *endpoint) *accessTokens {
	life, end := context.WithCancel(context.Background())
	s := &accessTokens{
		account: &jwt.Config{Email: "x@example.com", PrivateKey: testKey(), TokenURL: "https://example.com/token"},
		base:    e, timeout: 10 * time.Second, life: life,
	}
	t.Cleanup(func() {
		end()
		s.fetches.Wait()
	})
	return s
}

func mustGet(t *testing.T, s *accessTokens, want string) *accessToken {
	t.Helper()
	token, failed := s.get(t.Context())
	if failed != nil {
		t.Fatalf("no access token: %+v", failed)
	}
	if token.value != want {
		t.Fatalf("access token %q, want %q", token.value, want)
	}
	return token
}

func TestAccessTokenIsRenewedAhead(t *testing.T) {
	testKey() // outside of the bubble: tests share the key
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{latency: time.Second}
		s := newTokens(t, e)
		mustGet(t, s, "token-1")
		time.Sleep(53 * time.Minute)
		mustGet(t, s, "token-1")
		synctest.Wait()
		if e.asked != 1 {
			t.Fatalf("asked %d times, want once", e.asked)
		}
		time.Sleep(2 * time.Minute)
		began := time.Now()
		mustGet(t, s, "token-1")
		if took := time.Since(began); took != 0 {
			t.Errorf("waited %v for a renewal ahead of need", took)
		}
		time.Sleep(2 * time.Second)
		mustGet(t, s, "token-2")
		time.Sleep(2 * time.Hour)
		mustGet(t, s, "token-3")
	})
}

func TestAccessTokenOutlivesTroubleAtTheEndpoint(t *testing.T) {
	testKey()
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{answer: func(n int) (int, string) {
			if n == 1 {
				return http.StatusOK, `{"access_token":"good","expires_in":3600}`
			}
			return http.StatusServiceUnavailable, ""
		}}
		s := newTokens(t, e)
		mustGet(t, s, "good")
		time.Sleep(59 * time.Minute)
		mustGet(t, s, "good")
		synctest.Wait()
		time.Sleep(time.Minute)
		if _, failed := s.get(t.Context()); failed == nil || failed.Reason != TokenEndpointUnreachable {
			t.Errorf("outcome %+v, want %s", failed, TokenEndpointUnreachable)
		}
	})
}

func TestConcurrentGetsShareFetch(t *testing.T) {
	testKey()
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{latency: time.Second}
		s := newTokens(t, e)
		var gets sync.WaitGroup
		for range 100 {
			gets.Go(func() { mustGet(t, s, "token-1") })
		}
		gets.Wait()
		if e.asked != 1 {
			t.Errorf("asked %d times, want once", e.asked)
		}
	})
}

func TestGetOfAccessTokenEndsWithContext(t *testing.T) {
	testKey()
	synctest.Test(t, func(t *testing.T) {
		s := newTokens(t, &endpoint{latency: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, failed := s.get(ctx)
		if failed == nil || failed.Kind != providers.Retry || failed.Reason != TokenEndpointUnreachable || failed.Ambiguous {
			t.Errorf("outcome %+v", failed)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %v, want 1s", took)
		}
		// The fetch has a time-out of its own, which does not depend on its callers.
		_, failed = s.get(t.Context())
		if failed == nil || failed.Reason != TokenEndpointUnreachable {
			t.Errorf("outcome %+v", failed)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("took %v, want 10s", took)
		}
	})
}

func TestDropKeepsNewerAccessToken(t *testing.T) {
	testKey()
	synctest.Test(t, func(t *testing.T) {
		s := newTokens(t, &endpoint{})
		first := mustGet(t, s, "token-1")
		s.drop(first)
		mustGet(t, s, "token-2")
		s.drop(first)
		mustGet(t, s, "token-2")
	})
}
