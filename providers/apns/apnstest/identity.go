package apnstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/standin"
)

// The IDs of the server's key and its team.
const (
	KeyID  = "STANDINKEY"
	TeamID = "STANDTEAM1"
)

// Topic is the bundle ID that the written configurations carry.
const Topic = "com.example.shop"

// An identity is the server's certificate authority, its certificates, and the key with which
// senders sign their provider tokens.
type identity struct {
	authority    *x509.Certificate
	authorityKey *ecdsa.PrivateKey
	server       tls.Certificate
	key          *ecdsa.PrivateKey
}

func newIdentity() (*identity, error) {
	now := time.Now()
	id := &identity{}
	var err error
	if id.authorityKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	if id.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(now.UnixNano()),
		Subject:               pkix.Name{CommonName: "apnstest"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.AddDate(1, 0, 0),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &id.authorityKey.PublicKey, id.authorityKey)
	if err != nil {
		return nil, err
	}
	if id.authority, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	id.server, err = id.issue("apnstest server", x509.ExtKeyUsageServerAuth)
	return id, err
}

// issue signs a certificate for a new key.
func (id *identity) issue(name string, usage x509.ExtKeyUsage) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.AddDate(1, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{usage},
		DNSNames:     []string{"localhost", standin.ProxyHost},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}, id.authority, &key.PublicKey, id.authorityKey)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

func (id *identity) serverConfig() *tls.Config {
	clients := x509.NewCertPool()
	clients.AddCert(id.authority)
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{id.server},
		NextProtos:   []string{"h2"},
		ClientAuth:   tls.VerifyClientCertIfGiven,
		ClientCAs:    clients,
	}
}

// CA returns the certificate authority's certificate as PEM.
func (s *Server) CA() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.identity.authority.Raw})
}

// WriteCredentials writes the files of a sender with a key into dir (ca.pem and
// AuthKey_STANDINKEY.p8) and returns its configuration.
func (s *Server) WriteCredentials(dir string) (apns.Config, error) {
	c := apns.Config{
		Topic:      Topic,
		KeyFile:    filepath.Join(dir, "AuthKey_"+KeyID+".p8"),
		KeyID:      KeyID,
		TeamID:     TeamID,
		Endpoint:   s.URL(),
		RootCAFile: filepath.Join(dir, "ca.pem"),
	}
	key, err := keyPEM(s.identity.key)
	if err != nil {
		return apns.Config{}, err
	}
	return c, writeFiles(map[string][]byte{c.KeyFile: key, c.RootCAFile: s.CA()})
}

// WriteCertificate writes the files of a sender with a certificate into dir (ca.pem
// and client.pem, which holds certificate and key) and returns its configuration.
func (s *Server) WriteCertificate(dir string) (apns.Config, error) {
	c := apns.Config{
		Topic:           Topic,
		CertificateFile: filepath.Join(dir, "client.pem"),
		Endpoint:        s.URL(),
		RootCAFile:      filepath.Join(dir, "ca.pem"),
	}
	cert, err := s.identity.issue("Apple Push Services: "+Topic, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return apns.Config{}, fmt.Errorf("apnstest: %w", err)
	}
	key, err := keyPEM(cert.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		return apns.Config{}, err
	}
	both := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}), key...)
	return c, writeFiles(map[string][]byte{c.CertificateFile: both, c.RootCAFile: s.CA()})
}

func keyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("apnstest: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func writeFiles(files map[string][]byte) error {
	for name, content := range files {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return fmt.Errorf("apnstest: %w", err)
		}
	}
	return nil
}
