package apns

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"
)

// NewWatching is New with the given interval between two checks of the files.
func NewWatching(c Config, interval time.Duration) (*Sender, error) { return newSender(c, interval) }

// Age sets a provider token of that age for the sender's key.
func (s *Sender) Age(age time.Duration) error {
	t := s.credential.Load().key.token
	t.Lock()
	defer t.Unlock()
	issued := time.Now().Add(-age).Unix()
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode(fmt.Appendf(nil, `{"alg":"ES256","kid":%q}`, t.KeyID)) + "." +
		encode(fmt.Appendf(nil, `{"iss":%q,"iat":%d}`, t.TeamID, issued))
	digest := sha256.Sum256([]byte(signed))
	r, sum, err := ecdsa.Sign(rand.Reader, t.AuthKey, digest[:])
	if err != nil {
		return err
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	sum.FillBytes(signature[32:])
	t.Bearer, t.IssuedAt = signed+"."+encode(signature), issued
	return nil
}

// Bearer returns the provider token in use.
func (s *Sender) Bearer() string {
	t := s.credential.Load().key.token
	t.Lock()
	defer t.Unlock()
	return t.Bearer
}
