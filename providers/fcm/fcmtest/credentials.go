package fcmtest

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pushpace/pushpace/providers/fcm/fcmconfig"
)

// The service account that the server knows.
const (
	clientEmail = "sender@pushpace-test.iam.gserviceaccount.com"
	keyID       = "0123456789abcdef0123456789abcdef01234567"
)

// WriteCredentials writes two files into dir: a service account's key file in
// Google's format, with the server's token_uri, and the certificate of the server's
// authority. It returns the configuration of a sender that uses them.
func (s *Server) WriteCredentials(dir string) (fcmconfig.Config, error) {
	key, err := x509.MarshalPKCS8PrivateKey(s.key)
	if err != nil {
		return fcmconfig.Config{}, fmt.Errorf("fcmtest: %w", err)
	}
	text, err := json.MarshalIndent(map[string]string{
		"type":           "service_account",
		"project_id":     s.Project(),
		"private_key_id": keyID,
		"private_key":    string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
		"client_email":   clientEmail,
		"client_id":      "100000000000000000000",
		"token_uri":      s.URL() + "/token",
	}, "", "  ")
	if err != nil {
		return fcmconfig.Config{}, fmt.Errorf("fcmtest: %w", err)
	}
	c := fcmconfig.Config{
		CredentialsFile: filepath.Join(dir, "fcm-credentials.json"),
		RootCAFile:      filepath.Join(dir, "fcm-root-ca.pem"),
		Endpoint:        s.URL(),
	}
	if err := os.WriteFile(c.CredentialsFile, text, 0o600); err != nil {
		return fcmconfig.Config{}, fmt.Errorf("fcmtest: %w", err)
	}
	if err := os.WriteFile(c.RootCAFile, s.CA(), 0o644); err != nil {
		return fcmconfig.Config{}, fmt.Errorf("fcmtest: %w", err)
	}
	return c, nil
}
