package webpushtest

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v4"

	"github.com/pushpace/pushpace/providers/providertest"
	"github.com/pushpace/pushpace/push"
)

// A rig sends raw requests to a server.
type rig struct {
	*testing.T
	server  *Server
	client  *http.Client
	private *ecdsa.PrivateKey
	public  string
}

func newRig(t *testing.T, o Options) *rig {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	point, err := private.PublicKey.Bytes()
	must(t, err)
	r := &rig{T: t, private: private, public: base64.RawURLEncoding.EncodeToString(point)}
	o.PublicKeys = []string{r.public}
	r.server, err = NewServer(o)
	must(t, err)
	providertest.Closing(t, r.server)
	r.client = providertest.Client(t, r.server.CA())
	return r
}

// token returns a signed token with the claims.
func (r *rig) token(claims jwt.MapClaims) string {
	r.Helper()
	signed, err := jwt.NewWithClaims(jwt.SigningMethodES256, claims).SignedString(r.private)
	must(r, err)
	return signed
}

// validClaims returns valid claims for a host.
func validClaims(host string) jwt.MapClaims {
	return jwt.MapClaims{"aud": "https://" + host, "exp": time.Now().Add(12 * time.Hour).Unix(), "sub": "mailto:push@example.com"}
}

// encrypt encrypts as a sender does, with the padding after the payload.
func (r *rig) encrypt(endpoint, payload, padding string) []byte {
	r.Helper()
	to := receiverAt(endpoint)
	sender, err := ecdh.P256().GenerateKey(rand.Reader)
	must(r, err)
	shared, err := sender.ECDH(to.private.PublicKey())
	must(r, err)
	body := make([]byte, saltSize)
	_, _ = rand.Read(body)
	gcm, nonce, err := to.cipher(shared, sender.PublicKey().Bytes(), body)
	must(r, err)
	body = append(binary.BigEndian.AppendUint32(body, maxBody), pointSize)
	body = append(body, sender.PublicKey().Bytes()...)
	return gcm.Seal(body, nonce, []byte(payload+padding), nil)
}

// send sends a valid push, modified by change.
func (r *rig) send(endpoint string, change func(*http.Request)) (*http.Response, string) {
	r.Helper()
	u, err := url.Parse(endpoint)
	must(r, err)
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, r.server.URL()+u.RequestURI(), nil)
	must(r, err)
	request.Host = u.Host
	request.Header = http.Header{
		"Authorization": {"vapid t=" + r.token(validClaims(u.Host)) + ", k=" + r.public}, "Content-Encoding": {"aes128gcm"}, "Ttl": {"60"}, "Urgency": {"high"},
	}
	if strings.HasSuffix(u.Host, "windows.com") {
		request.Header.Set("X-WNS-Cache-Policy", "cache")
	}
	put(request, r.encrypt(endpoint, `{"pushpace_id":"id"}`, "\x02"))
	if change != nil {
		change(request)
	}
	response, err := r.client.Do(request)
	must(r, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	must(r, err)
	return response, string(text)
}

func put(r *http.Request, body []byte) {
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
}

func TestInvalidRequestsAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	header := func(field, value string) func(*http.Request) {
		return func(q *http.Request) { q.Header.Set(field, value) }
	}
	without := func(field string) func(*http.Request) { return func(q *http.Request) { q.Header.Del(field) } }
	claims := func(change func(jwt.MapClaims)) func(*http.Request) {
		return func(q *http.Request) {
			c := validClaims(q.Host)
			change(c)
			q.Header.Set("Authorization", "vapid t="+r.token(c)+", k="+r.public)
		}
	}
	body := func(change func([]byte) []byte) func(*http.Request) {
		return func(q *http.Request) {
			b, err := io.ReadAll(q.Body)
			must(t, err)
			put(q, change(b))
		}
	}
	again := r.encrypt(Endpoint(push.WebPushGoogle, "device"), `{}`, "\x02")
	for name, c := range map[string]struct {
		service push.Platform
		change  func(*http.Request)
		status  int
	}{
		"padded": {push.WebPushGoogle, body(func([]byte) []byte {
			return r.encrypt(Endpoint(push.WebPushGoogle, "device"), `{}`, "\x02\x00\x00\x00")
		}), 201},
		"no space before the key": {push.WebPushMozilla, func(q *http.Request) {
			q.Header.Set("Authorization", strings.Replace(q.Header.Get("Authorization"), ", k", ",k", 1))
		}, 201},
		"no TTL":               {push.WebPushGoogle, without("TTL"), 400},
		"TTL 0 at Apple":       {push.WebPushApple, header("TTL", "0"), 400},
		"TTL 0":                {push.WebPushMozilla, header("TTL", "0"), 201},
		"another urgency":      {push.WebPushGoogle, header("Urgency", "critical"), 400},
		"a long topic":         {push.WebPushGoogle, header("Topic", strings.Repeat("a", 33)), 400},
		"a topic of 13":        {push.WebPushApple, header("Topic", strings.Repeat("a", 13)), 400},
		"a point in the topic": {push.WebPushGoogle, header("Topic", "a.b"), 400},
		"aesgcm":               {push.WebPushGoogle, header("Content-Encoding", "aesgcm"), 400},
		"Crypto-Key":           {push.WebPushGoogle, header("Crypto-Key", "dh=x"), 400},
		"no cache policy":      {push.WebPushWindows, without("X-WNS-Cache-Policy"), 400},
		"PUT":                  {push.WebPushGoogle, func(q *http.Request) { q.Method = http.MethodPut }, 405},
		"no authorization":     {push.WebPushGoogle, without("Authorization"), 403},
		"another origin":       {push.WebPushGoogle, claims(func(c jwt.MapClaims) { c["aud"] = "https://example.com" }), 403},
		"expired":              {push.WebPushApple, claims(func(c jwt.MapClaims) { c["exp"] = time.Now().Add(-time.Minute).Unix() }), 403},
		"more than a day":      {push.WebPushMozilla, claims(func(c jwt.MapClaims) { c["exp"] = time.Now().Add(25 * time.Hour).Unix() }), 401},
		"no sub":               {push.WebPushGoogle, claims(func(c jwt.MapClaims) { delete(c, "sub") }), 403},
		"localhost at Apple":   {push.WebPushApple, claims(func(c jwt.MapClaims) { c["sub"] = "mailto:a@localhost" }), 403},
		"localhost elsewhere":  {push.WebPushGoogle, claims(func(c jwt.MapClaims) { c["sub"] = "mailto:a@localhost" }), 201},
		"another's signature": {push.WebPushGoogle, func(q *http.Request) {
			q.Header.Set("Authorization", q.Header.Get("Authorization")[:len(q.Header.Get("Authorization"))-87]+r.server.key.Public())
		}, 403},
		"too long":       {push.WebPushGoogle, body(func(b []byte) []byte { return append(b, make([]byte, maxBody)...) }), 413},
		"cut off":        {push.WebPushGoogle, body(func(b []byte) []byte { return b[:80] }), 400},
		"changed":        {push.WebPushGoogle, body(func(b []byte) []byte { b[len(b)-1] ^= 1; return b }), 400},
		"a small record": {push.WebPushGoogle, body(func(b []byte) []byte { b[18] = 0; b[19] = 20; return b }), 400},
		"off the curve":  {push.WebPushGoogle, body(func(b []byte) []byte { b[80] ^= 1; return b }), 400},
		"another's":      {push.WebPushGoogle, body(func([]byte) []byte { return r.encrypt(Endpoint(push.WebPushGoogle, "other"), `{}`, "\x02") }), 400},
		"no delimiter":   {push.WebPushGoogle, body(func([]byte) []byte { return r.encrypt(Endpoint(push.WebPushGoogle, "device"), `{}`, "") }), 400},
		"a record that is not the last": {push.WebPushGoogle, body(func([]byte) []byte {
			return r.encrypt(Endpoint(push.WebPushGoogle, "device"), `{}`, "\x01")
		}), 400},
		"no JSON": {push.WebPushGoogle, body(func([]byte) []byte { return r.encrypt(Endpoint(push.WebPushGoogle, "device"), `x`, "\x02") }), 400},
	} {
		if response, text := r.send(Endpoint(c.service, "device"), c.change); response.StatusCode != c.status {
			t.Errorf("%s: %s %s, want %d", name, response.Status, text, c.status)
		}
	}
	once := body(func([]byte) []byte { return again })
	if response, _ := r.send(Endpoint(push.WebPushGoogle, "device"), once); response.StatusCode != http.StatusCreated {
		t.Errorf("%s", response.Status)
	}
	if response, _ := r.send(Endpoint(push.WebPushGoogle, "device"), once); response.StatusCode != http.StatusBadRequest {
		t.Errorf("a body that is sent again: %s", response.Status)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
