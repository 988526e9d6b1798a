//go:build soak

package webpush_test

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/providers/webpush"
	"github.com/pushpace/pushpace/providers/webpush/webpushtest"
	"github.com/pushpace/pushpace/push"
)

// An oracle is a folder with an independent implementation of Web Push.
type oracle string

// newOracle installs the packages of testdata/oracle. It needs Node and the registry of npm.
func newOracle(t *testing.T) oracle {
	t.Helper()
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "oracle"))))
	o := oracle(dir)
	o.run(t, "npm", "ci", "--no-audit", "--no-fund")
	return o
}

func (o oracle) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = string(o)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s\n%s", name, strings.Join(args, " "), err, out, &stderr)
	}
	return string(out)
}

// write writes values as JSON lines, and returns the file's name.
func write[T any](t *testing.T, values []T) string {
	t.Helper()
	var text bytes.Buffer
	for _, v := range values {
		must(t, json.NewEncoder(&text).Encode(v))
	}
	name := filepath.Join(t.TempDir(), "lines")
	must(t, os.WriteFile(name, text.Bytes(), 0o600))
	return name
}

var enc = base64.RawURLEncoding.EncodeToString

func newPair(t *testing.T) (private, public string) {
	t.Helper()
	pair, err := ecdh.P256().GenerateKey(rand.Reader)
	must(t, err)
	return enc(pair.Bytes()), enc(pair.PublicKey().Bytes())
}

// payloadSizes returns n payload sizes: the smallest, the largest and random ones between.
func payloadSizes(n int) []int {
	all := []int{1, 2, push.MaxWebPushPayload - 1, push.MaxWebPushPayload}
	for len(all) < n {
		all = append(all, 1+mathrand.IntN(push.MaxWebPushPayload))
	}
	return all
}

const contact = "mailto:push@example.com"

// http_ece decrypts our messages, and jws verifies our signatures.
func TestOtherLibrariesReadOurMessages(t *testing.T) {
	o := newOracle(t)
	private, public := newPair(t)
	key, err := webpush.ParseKey([]byte(private))
	if err != nil || key.Public() != public {
		t.Fatal(err)
	}
	type line struct {
		Private       string `json:"private"`
		Auth          string `json:"auth"`
		Payload       string `json:"payload"`
		Body          string `json:"body"`
		Authorization string `json:"authorization"`
		Origin        string `json:"origin"`
		Subject       string `json:"subject"`
	}
	var lines []line
	for i, size := range payloadSizes(200) {
		private, public := newPair(t)
		payload, auth := make([]byte, size), make([]byte, 16)
		_, _ = rand.Read(payload)
		_, _ = rand.Read(auth)
		to := push.Target{Token: webpushtest.Endpoint(services[i%len(services)], "device"), Keys: &push.Keys{P256DH: public, Auth: enc(auth)}}
		body, authorization, origin, err := webpush.Sealed(key, contact, to, payload)
		must(t, err)
		lines = append(lines, line{private, enc(auth), enc(payload), enc(body), authorization, origin, contact})
	}
	if out := o.run(t, "node", "open.js", write(t, lines)); strings.TrimSpace(out) != "200" {
		t.Errorf("it says %s", out)
	}
}
