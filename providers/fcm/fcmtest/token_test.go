package fcmtest_test

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/url"
	"testing"
	"time"

	"golang.org/x/oauth2/jwt"

	"github.com/pushpace/pushpace/providers/fcm/fcmtest"
)

func TestAccessTokensExpire(t *testing.T) {
	t.Parallel()
	const life = 4 * time.Second
	c := start(t, fcmtest.Options{TokenLifetime: life})
	token, err := c.token()
	if err != nil {
		t.Fatal(err)
	}
	c.bearer = token.AccessToken
	if left := time.Until(token.Expiry); left <= 0 || left > life {
		t.Fatalf("valid for %v, want %v", left, life)
	}
	if got := c.send(to("t")); got.status != http.StatusOK {
		t.Fatalf("%+v", got)
	}
	<-time.After(time.Until(token.Expiry) + 50*time.Millisecond)
	if got := c.send(to("t")); got.status != http.StatusUnauthorized {
		t.Errorf("%+v", got)
	}
}

func TestAssertions(t *testing.T) {
	t.Parallel()
	c := start(t, fcmtest.Options{})
	for name, change := range map[string]func(*jwt.Config){
		"issuer":   func(a *jwt.Config) { a.Email = "x@example.com" },
		"audience": func(a *jwt.Config) { a.Audience = "https://example.com" },
		"key ID":   func(a *jwt.Config) { a.PrivateKeyID = "x" },
		"too long": func(a *jwt.Config) { a.Expires = 3 * time.Hour },
		"scope":    func(a *jwt.Config) { a.Scopes = []string{"https://www.googleapis.com/auth/drive"} },
		"no scope": func(a *jwt.Config) { a.Scopes = nil },
	} {
		account := *c.account
		change(&account)
		changed := *c
		changed.account = &account
		if token, err := changed.token(); err == nil {
			t.Errorf("%s: got %q", name, token.AccessToken)
		}
	}
	now := time.Now()
	const grant = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	for _, form := range []url.Values{
		{},
		{"grant_type": {grant}, "assertion": {c.assertion(now.Add(-2*time.Hour), now.Add(-time.Hour))}},
		{"grant_type": {grant}, "assertion": {c.assertion(now.Add(time.Hour), now.Add(2*time.Hour))}},
		{"grant_type": {"password"}},
		{"grant_type": {grant}, "assertion": {"x"}},
		{"grant_type": {grant}, "assertion": {"e30.e30.e30"}},
	} {
		response, err := c.http.PostForm(c.server.URL()+"/token", form)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("%v: %d", form, response.StatusCode)
		}
	}
	if n := c.server.TokensIssued(); n != 1 {
		t.Errorf("%d were issued, want the first alone", n)
	}
}

// assertion signs an assertion that is good but for its times.
func (c *client) assertion(issued, expires time.Time) string {
	c.Helper()
	block, _ := pem.Decode(c.account.PrivateKey)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		c.Fatal(err)
	}
	part := func(v map[string]any) string {
		text, err := json.Marshal(v)
		if err != nil {
			c.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	signed := part(map[string]any{"alg": "RS256", "typ": "JWT", "kid": c.account.PrivateKeyID}) + "." + part(map[string]any{
		"iss": c.account.Email, "aud": c.account.TokenURL, "scope": c.account.Scopes[0], "iat": issued.Unix(), "exp": expires.Unix(),
	})
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(nil, key.(*rsa.PrivateKey), crypto.SHA256, sum[:])
	if err != nil {
		c.Fatal(err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func TestSignedByHand(t *testing.T) {
	t.Parallel()
	c := start(t, fcmtest.Options{})
	response, err := c.http.PostForm(c.server.URL()+"/token", url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"},
		"assertion":  {c.assertion(time.Now(), time.Now().Add(time.Hour))},
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("a good assertion is answered with %d", response.StatusCode)
	}
}
