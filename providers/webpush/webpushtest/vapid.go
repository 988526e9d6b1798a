package webpushtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/base64"
	"errors"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v4"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/pushpace/pushpace/push"
)

// maxLife bounds a VAPID token's remaining validity. Source: RFC 8292, section 2.
const maxLife = 24 * time.Hour

// maxRemembered bounds the tokens remembered.
const maxRemembered = 16 << 10

// tokens are the tokens that senders have presented.
type tokens struct {
	mu    sync.Mutex
	shown *lru.Cache[string, *senderToken]
	count map[push.Platform]int
}

// A senderToken is a token with a valid signature.
type senderToken struct {
	key     string // in base64url
	claims  claims
	expired bool
}

type claims struct {
	Aud string `json:"aud"`
	Exp int64  `json:"exp"`
	Sub string `json:"sub"`
}

// Valid accepts all claims: check checks them.
func (claims) Valid() error { return nil }

func newTokens() *tokens {
	all, _ := lru.New[string, *senderToken](maxRemembered) // only a size of 0 fails
	return &tokens{shown: all, count: make(map[push.Platform]int)}
}

// read parses the header field Authorization.
func (t *tokens) read(service push.Platform, authorization string) (senderToken, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, ok := t.shown.Get(authorization); ok {
		return *s, nil
	}
	s, err := parseAuthorization(authorization)
	if err != nil {
		return senderToken{}, err
	}
	t.count[service]++
	t.shown.Add(authorization, &s)
	return s, nil
}

// expire marks all presented tokens as expired.
func (t *tokens) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.shown.Values() {
		s.expired = true
	}
}

// parameters matches the parameters of the scheme vapid. Source: RFC 8292, section 3.
var parameters = regexp.MustCompile(`^vapid t=([\w-]+\.[\w-]+\.[\w-]+), ?k=([\w-]{87})$`)

func parseAuthorization(authorization string) (senderToken, error) {
	m := parameters.FindStringSubmatch(authorization)
	if m == nil {
		return senderToken{}, errors.New("want vapid t=…, k=…")
	}
	point, err := base64.RawURLEncoding.DecodeString(m[2])
	if err != nil {
		return senderToken{}, errors.New("k is not base64url")
	}
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	if err != nil {
		return senderToken{}, errors.New("k is not on the curve")
	}
	s := senderToken{key: m[2]}
	parser := jwt.NewParser(jwt.WithValidMethods([]string{"ES256"}))
	if _, err := parser.ParseWithClaims(m[1], &s.claims, func(*jwt.Token) (any, error) { return key, nil }); err != nil {
		return senderToken{}, errors.New("t is not signed by k")
	}
	return s, nil
}

// check returns the problem of a token presented for a host.
func (s senderToken) check(service push.Platform, host string, now time.Time) error {
	switch left := time.Unix(s.claims.Exp, 0).Sub(now); {
	case s.expired:
		return errors.New("the token is expired")
	case s.claims.Aud != "https://"+host:
		return errors.New("aud is not this origin")
	case left <= 0 || left > maxLife:
		return errors.New("exp is not within 24 hours")
	case s.claims.Sub == "":
		return errors.New("sub is missing")
	case service == push.WebPushApple && !isUsableSubject(s.claims.Sub):
		return errors.New("sub is not usable")
	}
	return nil
}

// subject matches the subjects that Apple accepts.
var subject = regexp.MustCompile(`^(?:mailto:[^\s<>@:]+@|https://)((?:[\w-]+\.)+[A-Za-z]{2,})(?:/\S*)?$`)

func isUsableSubject(sub string) bool {
	m := subject.FindStringSubmatch(sub)
	if m == nil {
		return false
	}
	_, err := netip.ParseAddr(m[1])
	return err != nil && !strings.HasSuffix(m[1], ".local") && !strings.HasSuffix(m[1], ".invalid")
}
