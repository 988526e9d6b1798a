package webpush

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v4"
	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	// tokenLife is a VAPID token's validity. A service refuses a token that is valid for more than
	// 24 hours by its own clock, which may be slow. Source: RFC 8292, section 2.
	tokenLife = 12 * time.Hour
	// tokenReserve is how long before a token's end a new one replaces it.
	tokenReserve = time.Hour
	// minTokenAge is the minimum age at which a token that the service never accepted is replaced:
	// the local clock may have been corrected meanwhile.
	minTokenAge = time.Minute
	// maxTokens bounds the tokens cached.
	maxTokens = 1024
)

// A token authenticates the sender to one push service (RFC 8292).
type token struct {
	authorization string
	made          time.Time
	until         time.Time // by the wall clock, as the service checks it
	// worked is true once the service has accepted the token.
	worked atomic.Bool
}

// tokens are a key's tokens, one per origin. They are reused: some services count how often a
// sender presents a new token.
type tokens struct {
	key      *Key
	subject  string
	making   sync.Mutex
	byOrigin *lru.Cache[string, *token]
}

func newTokens(key *Key, subject string) *tokens {
	byOrigin, _ := lru.New[string, *token](maxTokens) // only a size of 0 fails
	return &tokens{key: key, subject: subject, byOrigin: byOrigin}
}

// get returns the token for an origin, such as https://fcm.googleapis.com.
func (t *tokens) get(origin string, now time.Time) (*token, error) {
	t.making.Lock()
	defer t.making.Unlock()
	if kept, ok := t.byOrigin.Get(origin); ok && now.Round(0).Before(kept.until) {
		return kept, nil
	}
	authorization, err := t.key.authorization(origin, t.subject, now.Add(tokenLife))
	if err != nil {
		return nil, err
	}
	made := &token{authorization: authorization, made: now, until: now.Add(tokenLife - tokenReserve).Round(0)}
	t.byOrigin.Add(origin, made)
	return made, nil
}

// markRefused drops a token that the service has refused, so that the next push to the origin gets a
// new one. It keeps a token younger than minTokenAge that never worked: a new one would be refused
// for the same reason.
func (t *tokens) markRefused(origin string, refused *token, now time.Time) {
	if !refused.worked.Load() && now.Sub(refused.made) < minTokenAge {
		return
	}
	t.making.Lock()
	defer t.making.Unlock()
	if kept, ok := t.byOrigin.Peek(origin); ok && kept == refused {
		t.byOrigin.Remove(origin)
	}
}

// authorization returns the value of the header field Authorization: a token for the origin, with
// contact and expiry, and the public key. Source: RFC 8292, sections 2 and 3.
func (k *Key) authorization(origin, subject string, ends time.Time) (string, error) {
	claims := jwt.MapClaims{"aud": origin, "exp": ends.Unix(), "sub": subject}
	signed, err := jwt.NewWithClaims(jwt.SigningMethodES256, claims).SignedString(k.private)
	if err != nil {
		return "", err
	}
	return "vapid t=" + signed + ", k=" + k.public, nil
}
