package webpush

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v4"
)

// claimsOf verifies the header field Authorization with the key in it, at the instant, and
// returns the claims.
func claimsOf(t *testing.T, authorization string, at time.Time) jwt.MapClaims {
	t.Helper()
	m := regexp.MustCompile(`^vapid t=(\S+), k=(\S{87})$`).FindStringSubmatch(authorization)
	if m == nil {
		t.Fatalf("%q has not the form of RFC 8292", authorization)
	}
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), unbase64(t, m[2]))
	must(t, err)
	claims := jwt.MapClaims{}
	parser := jwt.NewParser(jwt.WithValidMethods([]string{"ES256"}), jwt.WithoutClaimsValidation())
	if _, err := parser.ParseWithClaims(m[1], claims, func(*jwt.Token) (any, error) { return key, nil }); err != nil {
		t.Fatal(err)
	}
	if ends := time.Unix(int64(claims["exp"].(float64)), 0); !ends.After(at) || ends.Sub(at) > 24*time.Hour {
		t.Errorf("it ends at %v, %v from then", ends, ends.Sub(at))
	}
	return claims
}

func TestTokenIsReusedPerOrigin(t *testing.T) {
	t.Parallel()
	key, err := GenerateKey()
	must(t, err)
	tokens, now := newTokens(key, "mailto:push@example.com"), time.Now()
	get := func(origin string, at time.Time) *token {
		t.Helper()
		made, err := tokens.get(origin, at)
		must(t, err)
		return made
	}
	first := get("https://a.example", now)
	claims := claimsOf(t, first.authorization, now)
	if claims["aud"] != "https://a.example" || claims["sub"] != "mailto:push@example.com" || int64(claims["exp"].(float64)) != now.Add(12*time.Hour).Unix() || len(claims) != 3 {
		t.Errorf("%v", claims)
	}
	for i := range 10_000 {
		if get("https://a.example", now.Add(time.Duration(i)*time.Second)) != first {
			t.Fatalf("push %d has another token", i)
		}
	}
	if get("https://b.example", now) == first {
		t.Error("two origins share a token")
	}
	second := get("https://a.example", now.Add(tokenLife-tokenReserve))
	if second == first {
		t.Error("a token is used within an hour of its end")
	}
	first.worked.Store(true)
	tokens.markRefused("https://a.example", first, now)
	if get("https://a.example", now) != second {
		t.Error("an older token's refusal drops the newer one")
	}
	tokens.markRefused("https://a.example", second, second.made.Add(minTokenAge-1))
	if get("https://a.example", now) != second {
		t.Error("a new token that never worked is replaced at once")
	}
	tokens.markRefused("https://a.example", second, second.made.Add(minTokenAge))
	third := get("https://a.example", now)
	if third == second {
		t.Error("a token that never worked is never replaced")
	}
	third.worked.Store(true)
	tokens.markRefused("https://a.example", third, now)
	if get("https://a.example", now) == third {
		t.Error("a token that worked, and is refused, is used again")
	}
	for i := range 2 * maxTokens {
		get(fmt.Sprintf("https://%d.example", i), now)
	}
	if n := tokens.byOrigin.Len(); n != maxTokens {
		t.Errorf("%d tokens are kept, want %d", n, maxTokens)
	}
}
