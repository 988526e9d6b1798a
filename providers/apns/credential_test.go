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

	"github.com/pushpace/pushpace/internal/base/keyfile"
)

func TestRefreshRenewsOldTokenOnly(t *testing.T) {
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

func writeKey(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	name := filepath.Join(t.TempDir(), "key.p8")
	must(t, os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	return name
}

func TestSendersWithSameKeyShareToken(t *testing.T) {
	t.Parallel()
	config := Config{KeyFile: writeKey(t), KeyID: "ABCDEFGHIJ", TeamID: "0123456789"}
	load := func(c Config) *key {
		t.Helper()
		k, err := loadKey(c)
		must(t, err)
		return k
	}
	first := load(config)
	if load(config) != first {
		t.Error("the same key has two tokens")
	}
	otherTeam, otherKey := config, config
	otherTeam.TeamID = "9876543210"
	otherKey.KeyFile = writeKey(t)
	if load(otherTeam) == first || load(otherKey) == first {
		t.Error("different keys share a token")
	}
}

func TestExpiredCertificateIsRefused(t *testing.T) {
	t.Parallel()
	private, err := os.ReadFile(writeKey(t))
	must(t, err)
	key, err := keyfile.Parse("", private, "")
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	file := filepath.Join(t.TempDir(), "both.pem")
	must(t, os.WriteFile(file, append(private, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})...), 0o600))
	if _, err := loadCertificate(Config{CertificateFile: file}); err == nil || !strings.Contains(err.Error(), "expired on 2020-01-02") {
		t.Error(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
