package apnstest

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"strings"
	"sync"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/apns"
)

const (
	// A provider token is valid for an hour, and a connection may change its token every 20 minutes. Source: Apple, "Establishing a token-based connection to APNs".
	tokenLife     = time.Hour
	tokenInterval = 20 * time.Minute
)

// A tokenChecker verifies provider tokens, each token once. It is safe for concurrent use.
type tokenChecker struct {
	keys map[string]*ecdsa.PublicKey

	mu       sync.Mutex
	verified map[string]verified // by bearer
}

// verified has the claims of a provider token.
type verified struct {
	issued  int64 // iat, in seconds
	expired bool  // by ExpireTokens
}

// updates has the issue time of the newest token that a connection has used.
type updates struct{ issued int64 }

// check returns why APNs refuses bearer, or "". conn has the issue time of the
// connection's newest token.
func (t *tokenChecker) check(bearer string, conn *updates, now time.Time) providers.Reason {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, known := t.verified[bearer]
	if !known {
		var ok bool
		if v, ok = t.verify(bearer); !ok {
			return apns.InvalidProviderToken
		}
	}
	switch age := now.Sub(time.Unix(v.issued, 0)); {
	case age > tokenLife || v.expired:
		return apns.ExpiredProviderToken
	case age < -time.Minute:
		return apns.InvalidProviderToken
	}
	if !conn.allow(v.issued) {
		return apns.TooManyProviderTokenUpdates
	}
	if !known {
		if t.verified == nil || len(t.verified) > 1000 {
			t.verified = make(map[string]verified)
		}
		t.verified[bearer] = v
	}
	return ""
}

// expire marks every provider token that was used so far as expired.
func (t *tokenChecker) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for bearer, v := range t.verified {
		v.expired = true
		t.verified[bearer] = v
	}
}

// allow reports whether a token with that issue time may be used now, and records its use. An older
// token than the newest is still valid: it was on its way.
func (u *updates) allow(issued int64) bool {
	if u.issued != 0 && issued > u.issued && issued-u.issued < int64(tokenInterval/time.Second) {
		return false
	}
	u.issued = max(u.issued, issued)
	return true
}

// verify checks the signature, the key and the team, and returns the token's claims.
func (t *tokenChecker) verify(bearer string) (v verified, ok bool) {
	signed, signature, ok := cutLast(bearer)
	if !ok {
		return verified{}, false
	}
	head, body, ok := strings.Cut(signed, ".")
	if !ok {
		return verified{}, false
	}
	var header struct{ Alg, Kid string }
	var claims struct {
		Iss string
		Iat int64
	}
	if !decode(head, &header) || !decode(body, &claims) {
		return verified{}, false
	}
	key := t.keys[header.Kid]
	sig, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil || key == nil || header.Alg != "ES256" || claims.Iss != TeamID || len(sig) != 64 {
		return verified{}, false
	}
	digest := sha256.Sum256([]byte(signed))
	r, s := new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])
	return verified{issued: claims.Iat}, ecdsa.Verify(key, digest[:], r, s)
}

func cutLast(bearer string) (signed, signature string, ok bool) {
	i := strings.LastIndexByte(bearer, '.')
	if i < 0 {
		return "", "", false
	}
	return bearer[:i], bearer[i+1:], true
}

func decode(part string, v any) bool {
	b, err := base64.RawURLEncoding.DecodeString(part)
	return err == nil && json.Unmarshal(b, v) == nil
}
