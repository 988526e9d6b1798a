package push_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/push"
)

func TestSignature(t *testing.T) {
	t.Parallel()
	secret, body, at := []byte("0123456789abcdef"), []byte(`{"dead_tokens":[]}`), time.Unix(1_795_219_200, 0)
	header := push.Sign(secret, body, at)
	// echo -n '1795219200.{"dead_tokens":[]}' | openssl dgst -sha256 -hmac 0123456789abcdef
	const want = "t=1795219200,v1=72144b42074ddb6eecb1156ab39b8d77e5a5d39242e5e7d2adaed1ad1fccbd9b"
	if header != want {
		t.Errorf("signed %s, want %s", header, want)
	}
	for name, c := range map[string]struct {
		secret, body, header string
		now                  time.Time
		ok                   bool
	}{
		"right":         {string(secret), string(body), header, at.Add(time.Minute), true},
		"with more":     {string(secret), string(body), header + ",v2=00", at, true},
		"ahead":         {string(secret), string(body), header, at.Add(-time.Minute), true},
		"other secret":  {"another", string(body), header, at, false},
		"other body":    {string(secret), "{}", header, at, false},
		"other instant": {string(secret), string(body), strings.Replace(header, "t=1795219200", "t=1795219201", 1), at, false},
		"old":           {string(secret), string(body), header, at.Add(time.Hour), false},
		"none":          {string(secret), string(body), "", at, false},
		"half":          {string(secret), string(body), "t=1795219200", at, false},
		"not hex":       {string(secret), string(body), "t=1795219200,v1=zz", at, false},
	} {
		if err := push.VerifySignature([]byte(c.secret), []byte(c.body), c.header, c.now, 5*time.Minute); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
