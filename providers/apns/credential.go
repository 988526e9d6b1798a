package apns

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/sideshow/apns2"
	"github.com/sideshow/apns2/certificate"

	"github.com/pushpace/pushpace/internal/base/textfile"
	"github.com/pushpace/pushpace/providers"
)

// A credential is what a Sender authenticates with: a key or a certificate.
type credential struct {
	// client is apns2's, which has the key's token.
	client      *apns2.Client
	key         *key             // nil with a certificate
	certificate *tls.Certificate // nil with a key
	fingerprint string
}

// loadCredential reads the configured key or certificate.
func loadCredential(c Config, http *http.Client) (*credential, error) {
	loaded := &credential{client: &apns2.Client{Host: c.host(), HTTPClient: http}}
	if c.CertificateFile != "" {
		cert, err := loadCertificate(c)
		if err != nil {
			return nil, err
		}
		loaded.certificate, loaded.client.Certificate = &cert, cert
		loaded.fingerprint = providers.Fingerprint(c.host(), c.Topic, c.RootCAFile, string(cert.Certificate[0]))
		return loaded, nil
	}
	k, err := loadKey(c)
	if err != nil {
		return nil, err
	}
	loaded.key, loaded.client.Token = k, k.token
	loaded.fingerprint = providers.Fingerprint(c.host(), c.Topic, c.RootCAFile, k.id.keyID, k.id.teamID, k.id.publicKey)
	return loaded, nil
}

// same reports whether two credentials are the same to APNs.
func (c *credential) same(other *credential) bool {
	if c.certificate == nil || other.certificate == nil {
		return c.key == other.key && c.certificate == other.certificate
	}
	return bytes.Equal(c.certificate.Certificate[0], other.certificate.Certificate[0])
}

// loadCertificate returns the configured client certificate with its key.
func loadCertificate(c Config) (tls.Certificate, error) {
	password := ""
	if c.PasswordFile != "" {
		b, err := textfile.Read(c.PasswordFile)
		if err != nil {
			return tls.Certificate{}, fmt.Errorf("password_file: %w", err)
		}
		password = strings.TrimRight(string(b), "\r\n")
	}
	cert, err := readCertificate(c, password)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate_file: %w", err)
	}
	// apns2 leaves out what it cannot parse, and does not compare the two.
	private, ok := cert.PrivateKey.(crypto.Signer)
	if cert.Leaf == nil || !ok {
		return tls.Certificate{}, fmt.Errorf("certificate_file: %s holds no certificate with a key that can sign", c.CertificateFile)
	}
	public, ok := private.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(cert.Leaf.PublicKey) {
		return tls.Certificate{}, fmt.Errorf("certificate_file: %s belongs to another private key than the one configured", c.CertificateFile)
	}
	if time.Now().After(cert.Leaf.NotAfter) {
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
	pem, err := textfile.Read(c.CertificateFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	if c.KeyFile != "" {
		key, err := textfile.Read(c.KeyFile)
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
	pem, err := textfile.Read(c.RootCAFile)
	if err != nil {
		return nil, fmt.Errorf("root_ca_file: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("root_ca_file: %w", errors.New(c.RootCAFile+" holds no PEM certificate"))
	}
	return roots, nil
}
