package fcm

import (
	"fmt"
	"time"

	"golang.org/x/oauth2/jwt"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/fcm/internal/wire"
)

// Reload reads the service account's key file again, tries it at its token endpoint, and uses it
// from then on. It fails, and keeps the credentials in use, if the file cannot be read, names a
// project that is not the Sender's, or is refused by the endpoint. The error names the faulty key
// of the configuration. A Sender reloads by itself within seconds when the file changes.
func (s *Sender) Reload() error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	account, project, err := wire.ReadCredentials(s.credentialsFile)
	if err != nil {
		return err
	}
	if s.account != "" && project != s.account {
		return fmt.Errorf("credentials_file: %s is for a different project than before: set project_id, or restart", s.credentialsFile)
	}
	token, failed := s.tokens.ask(account)
	if failed.Kind == providers.Misconfigured {
		return fmt.Errorf("credentials_file: %s is not used: %w", s.credentialsFile, failed.Err)
	}
	// While the endpoint is in trouble, the key is used unchecked.
	s.tokens.use(account, token)
	s.identify(account)
	return nil
}

// OnReload sets f, which is called after each change of the file: with nil if the new credentials
// are in use, otherwise with the reason why the old credentials stay. It replaces an earlier f.
func (s *Sender) OnReload(f func(error)) { s.onReload.Store(&f) }

func (s *Sender) reload() {
	err := s.Reload()
	if f := s.onReload.Load(); f != nil {
		(*f)(err)
	}
}

// Fingerprint returns the fingerprint of the credentials in use: see providers.Fingerprint.
func (s *Sender) Fingerprint() string { return *s.fingerprint.Load() }

func (s *Sender) identify(account *jwt.Config) {
	now := providers.Fingerprint(s.endpoint, s.project, s.rootCAFile, account.Email, account.TokenURL, string(account.PrivateKey))
	s.fingerprint.Store(&now)
}

// CredentialExpiry reports false: a service account's key does not expire.
func (s *Sender) CredentialExpiry() (time.Time, bool) { return time.Time{}, false }
