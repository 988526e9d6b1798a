package fcmtest

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
)

// The service account that the server knows.
const (
	clientEmail = "sender@pushpace-test.iam.gserviceaccount.com"
	keyID       = "0123456789abcdef0123456789abcdef01234567"
)

// Files are the paths of what a client needs to reach a server.
type Files struct {
	// Credentials is the service account's key file, as Google issues it.
	Credentials string
	// RootCA holds the certificate of the server's authority in PEM.
	RootCA string
}

// WriteCredentials writes into dir a service account's key file whose token_uri
// is the server's, and the certificate of the server's authority.
func (s *Server) WriteCredentials(dir string) (Files, error) {
	key, err := x509.MarshalPKCS8PrivateKey(s.key)
	if err != nil {
		return Files{}, fmt.Errorf("fcmtest: %w", err)
	}
	text, err := json.MarshalIndent(map[string]string{
		"type":           "service_account",
		"project_id":     s.Project(),
		"private_key_id": keyID,
		"private_key":    string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
		"client_email":   clientEmail,
		"client_id":      "100000000000000000000",
		"token_uri":      s.url + "/token",
	}, "", "  ")
	if err != nil {
		return Files{}, fmt.Errorf("fcmtest: %w", err)
	}
	f := Files{Credentials: filepath.Join(dir, "fcm-credentials.json"), RootCA: filepath.Join(dir, "fcm-root-ca.pem")}
	if err := os.WriteFile(f.Credentials, text, 0o600); err != nil {
		return Files{}, fmt.Errorf("fcmtest: %w", err)
	}
	if err := os.WriteFile(f.RootCA, s.ca, 0o644); err != nil {
		return Files{}, fmt.Errorf("fcmtest: %w", err)
	}
	return f, nil
}
