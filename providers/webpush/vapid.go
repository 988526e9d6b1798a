package webpush

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v4"
	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	// tokenLife is how long a token is valid. A service refuses what is valid for more than
	// 24 hours by its own clock, which may be behind. Source: RFC 8292, section 2.
	tokenLife = 12 * time.Hour
	// tokenReserve is how long before its end a token is replaced.
	tokenReserve = time.Hour
	// tokenAge is how old a token is at least that is replaced because the service has never
	// taken it: the clock that it was made by may be right by then.
	tokenAge = time.Minute
	// maxTokens bounds the tokens that are kept.
	maxTokens = 1024
)

// A token says to one push service who sends (RFC 8292).
type token struct {
	authorization string
	made          time.Time
	until         time.Time // by the clock on the wall, which is what the service goes by
	// worked says that the service has taken it.
	worked atomic.Bool
}

// tokens are a key's, one for each origin: some services count how often a sender comes
// with a new one.
type tokens struct {
	key      *Key
	subject  string
	making   sync.Mutex
	byOrigin *lru.Cache[string, *token]
}

func newTokens(key *Key, subject string) *tokens {
	byOrigin, _ := lru.New[string, *token](maxTokens) // fails for no size
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

// refused says that the service has refused a token. The next push to the origin has
// another, unless this one is new and may be refused for what is wrong with all.
func (t *tokens) refused(origin string, refused *token, now time.Time) {
	if !refused.worked.Load() && now.Sub(refused.made) < tokenAge {
		return
	}
	t.making.Lock()
	defer t.making.Unlock()
	if kept, ok := t.byOrigin.Peek(origin); ok && kept == refused {
		t.byOrigin.Remove(origin)
	}
}

// authorization returns the value of the header field Authorization: a token for the
// origin, which says whom to turn to and when it ends, and the public key. Source: RFC
// 8292, sections 2 and 3.
func (k *Key) authorization(origin, subject string, ends time.Time) (string, error) {
	claims := jwt.MapClaims{"aud": origin, "exp": ends.Unix(), "sub": subject}
	signed, err := jwt.NewWithClaims(jwt.SigningMethodES256, claims).SignedString(k.private)
	if err != nil {
		return "", err
	}
	return "vapid t=" + signed + ", k=" + k.public, nil
}
