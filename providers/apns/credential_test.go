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

func TestRefreshToken(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		name    string
		bearer  string
		age     time.Duration
		wait    time.Duration
		renewed bool
	}{
		{"old", "b1", 40 * time.Minute, 0, true},
		{"at the floor", "b1", 20 * time.Minute, 0, true},
		{"too young", "b1", 5 * time.Minute, 15 * time.Minute, false},
		{"from the future", "b1", -time.Hour, 20 * time.Minute, false},
		{"renewed meanwhile", "b0", time.Minute, 0, false},
	} {
		tok := &token.Token{Bearer: "b1", IssuedAt: now.Add(-c.age).Unix()}
		if wait := refreshToken(tok, c.bearer, now); wait != c.wait {
			t.Errorf("%s: wait %v, want %v", c.name, wait, c.wait)
		}
		if renewed := tok.IssuedAt == 0; renewed != c.renewed {
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

func TestLoadTokenShares(t *testing.T) {
	t.Parallel()
	config := Config{KeyFile: writeKey(t, elliptic.P256()), KeyID: "ABCDEFGHIJ", TeamID: "0123456789"}
	load := func(c Config) *token.Token {
		t.Helper()
		tok, err := loadToken(c)
		if err != nil {
			t.Fatal(err)
		}
		return tok
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

func TestLoadTokenWrongCurve(t *testing.T) {
	t.Parallel()
	if _, err := loadToken(Config{KeyFile: writeKey(t, elliptic.P384())}); err == nil || !strings.Contains(err.Error(), "P-256") {
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

func TestLoadCertificateExpired(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	// Certificate and key apart.
	dir := t.TempDir()
	config := Config{CertificateFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	for name, block := range map[string]*pem.Block{
		config.CertificateFile: {Type: "CERTIFICATE", Bytes: cert},
		config.KeyFile:         {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := loadCertificate(config); err == nil || !strings.Contains(err.Error(), "expired on 2020-01-02") {
		t.Error(err)
	}
}
