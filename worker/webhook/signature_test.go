package webhook

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func TestStandardVerifierAcceptsSignatureOfEachKey(t *testing.T) {
	t.Parallel()
	body, keys := []byte(`{"dead_tokens":[]}`), [][]byte{bytes.Repeat([]byte{1}, 24), bytes.Repeat([]byte{2}, 64)}
	header := http.Header{}
	sign(header, keys, body, time.Now())
	for i, key := range append(keys, []byte("another")) {
		verifier, err := standardwebhooks.NewWebhookRaw(key)
		if err != nil {
			t.Fatal(err)
		}
		if err := verifier.Verify(body, header); (err == nil) != (i < len(keys)) {
			t.Errorf("key %d: %v", i, err)
		}
		if verifier.Verify([]byte("{}"), header) == nil {
			t.Errorf("key %d: another body is accepted", i)
		}
	}
}

func TestRetryHasSameWebhookID(t *testing.T) {
	t.Parallel()
	keys, now := [][]byte{bytes.Repeat([]byte{1}, 24)}, time.Now()
	ids := map[string]string{}
	for _, c := range []struct {
		body  string
		after time.Duration
	}{{"a", 0}, {"a", time.Minute}, {"b", 0}} {
		header := http.Header{}
		sign(header, keys, []byte(c.body), now.Add(c.after))
		id := header.Get("webhook-id")
		if was := ids[c.body]; was != "" && was != id {
			t.Errorf("a retry of %s has the ID %s, was %s", c.body, id, was)
		}
		ids[c.body] = id
	}
	if ids["a"] == ids["b"] {
		t.Errorf("two bodies have the ID %s", ids["a"])
	}
}
