package apns

import (
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sideshow/apns2/certificate"
	"github.com/sideshow/apns2/token"
)

// tokens holds one provider token for each key, however many Senders use it:
// APNs limits how often the tokens of a key are updated.
var tokens = struct {
	sync.Mutex
	byKey map[tokenKey]*token.Token
}{byKey: make(map[tokenKey]*token.Token)}

type tokenKey struct{ keyID, teamID, publicKey string }

// loadToken returns the provider token of the configured key.
func loadToken(c Config) (*token.Token, error) {
	key, err := token.AuthKeyFromFile(c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("key_file: %w", err)
	}
	if key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("key_file: %s holds no P-256 key, as ES256 needs", c.KeyFile)
	}
	public, err := key.PublicKey.Bytes()
	if err != nil {
		return nil, fmt.Errorf("key_file: %w", err)
	}
	tokens.Lock()
	defer tokens.Unlock()
	id := tokenKey{c.KeyID, c.TeamID, string(public)}
	t := tokens.byKey[id]
	if t == nil {
		t = &token.Token{AuthKey: key, KeyID: c.KeyID, TeamID: c.TeamID}
		tokens.byKey[id] = t
	}
	return t, nil
}

// refreshToken makes the next request mint a new token, now that APNs has
// refused bearer as expired. It returns how long to wait until then, because
// APNs limits how often a token is updated; 0 if a newer one is already there.
func refreshToken(t *token.Token, bearer string, now time.Time) time.Duration {
	t.Lock()
	defer t.Unlock()
	if t.Bearer != bearer {
		return 0
	}
	if wait := tokenUpdateInterval - now.Sub(time.Unix(t.IssuedAt, 0)); wait > 0 {
		return min(wait, tokenUpdateInterval)
	}
	t.IssuedAt = 0
	return 0
}

// loadCertificate returns the configured client certificate with its key.
func loadCertificate(c Config) (tls.Certificate, error) {
	password := ""
	if c.PasswordFile != "" {
		b, err := os.ReadFile(c.PasswordFile)
		if err != nil {
			return tls.Certificate{}, fmt.Errorf("password_file: %w", err)
		}
		password = strings.TrimRight(string(b), "\r\n")
	}
	cert, err := readCertificate(c, password)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate_file: %w", err)
	}
	if cert.Leaf != nil && time.Now().After(cert.Leaf.NotAfter) {
		return tls.Certificate{}, fmt.Errorf("certificate_file: %s expired on %s",
			c.CertificateFile, cert.Leaf.NotAfter.Format(time.DateOnly))
	}
	return cert, nil
}

func readCertificate(c Config, password string) (tls.Certificate, error) {
	switch strings.ToLower(filepath.Ext(c.CertificateFile)) {
	case ".p12", ".pfx":
		return certificate.FromP12File(c.CertificateFile, password)
	}
	pem, err := os.ReadFile(c.CertificateFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	if c.KeyFile != "" {
		key, err := os.ReadFile(c.KeyFile)
		if err != nil {
			return tls.Certificate{}, err
		}
		pem = append(append(pem, '\n'), key...)
	}
	return certificate.FromPemBytes(pem, password)
}

// loadRoots returns the configured certificate authorities, or nil for the
// system's.
func loadRoots(c Config) (*x509.CertPool, error) {
	if c.RootCAFile == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(c.RootCAFile)
	if err != nil {
		return nil, fmt.Errorf("root_ca_file: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("root_ca_file: %w", errors.New(c.RootCAFile+" holds no PEM certificate"))
	}
	return roots, nil
}
