package apns

import (
	"time"

	"github.com/golang-jwt/jwt/v4"
)

// NewWatching is New with the given interval between two checks of the files.
func NewWatching(c Config, interval time.Duration) (*Sender, error) { return newSender(c, interval) }

// Age sets a provider token of that age for the sender's key.
func (s *Sender) Age(age time.Duration) error {
	t := s.credential.Load().key.token
	t.Lock()
	defer t.Unlock()
	issued := time.Now().Add(-age).Unix()
	claims := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{"iss": t.TeamID, "iat": issued})
	claims.Header["kid"] = t.KeyID
	bearer, err := claims.SignedString(t.AuthKey)
	t.Bearer, t.IssuedAt = bearer, issued
	return err
}

// Bearer returns the provider token in use.
func (s *Sender) Bearer() string {
	t := s.credential.Load().key.token
	t.Lock()
	defer t.Unlock()
	return t.Bearer
}
