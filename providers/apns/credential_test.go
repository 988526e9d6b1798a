package apns

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sideshow/apns2/token"
)

func TestRefresh(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		name    string
		bearer  string
		age     time.Duration
		may     bool
		renewed bool
	}{
		{"old", "b1", 40 * time.Minute, true, true},
		{"at the floor", "b1", 20 * time.Minute, true, true},
		{"too young", "b1", 20*time.Minute - time.Second, false, false},
		{"from the future", "b1", -time.Hour, false, false},
		{"renewed meanwhile", "b0", time.Minute, true, false},
	} {
		k := &key{token: &token.Token{Bearer: "b1", IssuedAt: now.Add(-c.age).Unix()}}
		if may := k.refresh(c.bearer, now); may != c.may {
			t.Errorf("%s: %v, want %v", c.name, may, c.may)
		}
		if renewed := k.token.IssuedAt == 0; renewed != c.renewed {
			t.Errorf("%s: renewed %v", c.name, renewed)
		}
	}
}

func writeKey(t *testing.T, curve elliptic.Curve) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "key.p8")
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestSendersShareAKey(t *testing.T) {
	t.Parallel()
	config := Config{KeyFile: writeKey(t, elliptic.P256()), KeyID: "ABCDEFGHIJ", TeamID: "0123456789"}
	load := func(c Config) *key {
		t.Helper()
		k, err := loadKey(c)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	first := load(config)
	if load(config) != first {
		t.Error("the same key has two tokens")
	}
	otherTeam, otherKey := config, config
	otherTeam.TeamID = "9876543210"
	otherKey.KeyFile = writeKey(t, elliptic.P256())
	if load(otherTeam) == first || load(otherKey) == first {
		t.Error("different keys share a token")
	}
}

func TestLoadKeyWrongCurve(t *testing.T) {
	t.Parallel()
	if _, err := loadKey(Config{KeyFile: writeKey(t, elliptic.P384())}); err == nil || !strings.Contains(err.Error(), "P-256") {
		t.Error(err)
	}
}

func TestLoadCertificateP12(t *testing.T) {
	t.Parallel()
	password := filepath.Join(t.TempDir(), "password")
	config := Config{CertificateFile: "testdata/client.p12", PasswordFile: password}
	for content, ok := range map[string]bool{"correct-horse\n": true, "wrong-battery": false} {
		if err := os.WriteFile(password, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		cert, err := loadCertificate(config)
		if (err == nil) != ok || (cert.Leaf != nil) != ok {
			t.Errorf("%q: %v", content, err)
		}
		if err != nil && strings.Contains(err.Error(), content) {
			t.Errorf("the error holds the password: %v", err)
		}
	}
}

func TestLoadCertificateRefuses(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ownKey, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	otherKey, err := os.ReadFile(writeKey(t, elliptic.P256()))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		until time.Time
		key   []byte
		want  string
	}{
		"expired":        {time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: ownKey}), "expired on 2020-01-02"},
		"of another key": {time.Now().Add(time.Hour), otherKey, "another private key"},
	} {
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: c.until}
		cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		// Certificate and key apart.
		dir := t.TempDir()
		config := Config{CertificateFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
		for name, text := range map[string][]byte{
			config.CertificateFile: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
			config.KeyFile:         c.key,
		} {
			if err := os.WriteFile(name, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := loadCertificate(config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
