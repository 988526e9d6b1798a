package apns

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sideshow/apns2"
	"software.sslmate.com/src/go-pkcs12"

	"github.com/pushpace/pushpace/internal/base/keyfile"
	"github.com/pushpace/pushpace/internal/base/textfile"
	"github.com/pushpace/pushpace/providers"
)

// A credential authenticates a Sender: a key or a certificate.
type credential struct {
	// client is apns2's client, with the key's provider token.
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
	private, certificates, err := readCertificate(c, password)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate_file: %w", err)
	}
	chain := keyfile.Chain(private, certificates)
	if chain == nil {
		return tls.Certificate{}, fmt.Errorf("certificate_file: %s does not fit the configured private key", c.CertificateFile)
	}
	leaf := chain[0]
	if time.Now().After(leaf.NotAfter) {
		return tls.Certificate{}, fmt.Errorf("certificate_file: %s expired on %s",
			c.CertificateFile, leaf.NotAfter.Format(time.DateOnly))
	}
	cert := tls.Certificate{PrivateKey: private, Leaf: leaf}
	for _, one := range chain {
		cert.Certificate = append(cert.Certificate, one.Raw)
	}
	return cert, nil
}

// readCertificate returns the private key and all certificates of the configured files. It
// detects the format by the content.
func readCertificate(c Config, password string) (crypto.Signer, []*x509.Certificate, error) {
	text, err := textfile.Read(c.CertificateFile)
	if err != nil {
		return nil, nil, err
	}
	certificates, err := certificatesIn(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", c.CertificateFile, err)
	}
	if certificates == nil {
		return readP12(c.CertificateFile, text, password)
	}
	keyFile, keyText := c.CertificateFile, text
	if c.KeyFile != "" {
		keyFile = c.KeyFile
		if keyText, err = textfile.Read(c.KeyFile); err != nil {
			return nil, nil, err
		}
	}
	key, err := keyfile.Parse(keyFile, keyText, password)
	switch {
	case err == nil:
		return key, certificates, nil
	case errors.Is(err, keyfile.ErrEncrypted):
		err = fmt.Errorf("%w and set key_file to its output, or set password_file", err)
	case c.KeyFile == "":
		err = fmt.Errorf("%w: set key_file, or export certificate and key together as .p12", err)
	}
	return nil, nil, fmt.Errorf("%s: %w", keyFile, err)
}

// certificatesIn returns the certificates in a PEM text, or the certificate in DER; nil if text is
// neither.
func certificatesIn(text []byte) (all []*x509.Certificate, err error) {
	if one, err := x509.ParseCertificate(text); err == nil {
		return []*x509.Certificate{one}, nil
	}
	if !bytes.Contains(text, []byte("-----BEGIN")) {
		return nil, nil
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" && block.Type != "TRUSTED CERTIFICATE" {
			continue
		}
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errors.New("holds a certificate that cannot be read")
		}
		all = append(all, one)
	}
	if all == nil {
		return nil, errors.New("holds no certificate in PEM: name the key's file in key_file")
	}
	return all, nil
}

// readP12 reads a .p12 or .pfx file.
func readP12(file string, text []byte, password string) (crypto.Signer, []*x509.Certificate, error) {
	private, first, others, err := pkcs12.DecodeChain(text, password)
	if errors.Is(err, pkcs12.ErrIncorrectPassword) {
		problem := "has another password than password_file holds"
		if password == "" {
			problem = "has a password: set password_file"
		}
		return nil, nil, fmt.Errorf("%s %s", file, problem)
	}
	key, ok := private.(crypto.Signer)
	if err != nil || !ok {
		return nil, nil, fmt.Errorf("%s is neither PEM nor a .p12 with one private key and its certificate (%w): export both together, or convert it by %s and set certificate_file to its output",
			file, cmp.Or(err, errors.New("its key does not sign")), keyfile.Command("openssl pkcs12 -in FILE -nodes -out NEW", file))
	}
	return key, append([]*x509.Certificate{first}, others...), nil
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
