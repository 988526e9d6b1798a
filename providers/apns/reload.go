package apns

import (
	"time"
)

// Reload reads the key or the certificate again, and uses it from the next push
// on, over new connections. On an error it keeps the credential in use. The error
// names the faulty key of the configuration. A Sender reloads by itself within
// seconds when the files change.
//
// The key's ID belongs to the configuration: a file with a new key needs a new Sender, unless the
// key's ID is the same.
func (s *Sender) Reload() error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	next, err := loadCredential(s.config, s.http)
	if err != nil {
		return err
	}
	if next.same(s.credential.Load()) {
		return nil
	}
	s.credential.Store(next)
	// APNs ties a connection to the credential with which it was opened.
	s.connections.renew()
	return nil
}

// OnReload sets f, which is called after each change of the files: with nil if the new credential
// is in use, otherwise with the reason why the old credential stays. It replaces an earlier f.
func (s *Sender) OnReload(f func(error)) { s.onReload.Store(&f) }

func (s *Sender) reload() {
	err := s.Reload()
	if f := s.onReload.Load(); f != nil {
		(*f)(err)
	}
}

// Fingerprint returns the fingerprint of the credential in use: see providers.Fingerprint.
func (s *Sender) Fingerprint() string { return s.credential.Load().fingerprint }

// CredentialExpiry returns when the certificate in use expires. It reports false for a key, which
// does not expire.
func (s *Sender) CredentialExpiry() (time.Time, bool) {
	c := s.credential.Load().certificate
	if c == nil {
		return time.Time{}, false
	}
	return c.Leaf.NotAfter, true
}
