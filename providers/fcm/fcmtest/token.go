package fcmtest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pushpace/pushpace/providers/standin"
)

const grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer"

// Each scope allows a service account to send messages.
var scopes = []string{
	"https://www.googleapis.com/auth/firebase.messaging",
	"https://www.googleapis.com/auth/cloud-platform",
}

// maxSkew is how far a client's clock may be off.
const maxSkew = 5 * time.Minute

// accessTokens are the access tokens that were issued.
type accessTokens struct {
	lifetime time.Duration
	issued   atomic.Int64
	expiries sync.Map // string to time.Time
}

func (a *accessTokens) issue(now time.Time) string {
	value := "ya29." + rand.Text()
	a.expiries.Store(value, now.Add(a.lifetime))
	a.issued.Add(1)
	return value
}

// valid reports whether an Authorization header holds a valid token.
func (a *accessTokens) valid(authorization string, now time.Time) bool {
	value, ok := strings.CutPrefix(authorization, "Bearer ")
	if !ok {
		return false
	}
	expiry, ok := a.expiries.Load(value)
	return ok && now.Before(expiry.(time.Time))
}

func (a *accessTokens) expire() { a.expiries.Clear() }

// serveToken exchanges an assertion for an access token (RFC 7523).
func (s *Server) serveToken(w http.ResponseWriter, r *http.Request) {
	answer := s.TokenScript.Next("")
	s.Pause(r, answer.Delay)
	switch answer.Fault {
	case standin.NoFault:
	case standin.Page:
		standin.WritePage(w, answer.Status)
		return
	default:
		s.Fail(r, answer.Fault)
		return
	}
	if answer.Status != 0 && answer.Status != http.StatusOK {
		if v := answer.RetryAfterHeader(time.Now()); v != "" {
			w.Header().Set("Retry-After", v)
		}
		reason := answer.Reason
		if reason == "" {
			reason = "invalid_grant"
		}
		writeJSON(w, answer.Status, map[string]string{"error": reason, "error_description": "as told"})
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
	if r.PostFormValue("grant_type") != grantType {
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": "unsupported_grant_type"})
		return
	}
	now := time.Now()
	if problem := s.verify(r.PostFormValue("assertion"), now); problem != "" {
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant", "error_description": problem})
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"access_token": s.access.issue(now),
		"expires_in":   int64(s.access.lifetime / time.Second),
		"token_type":   "Bearer",
	})
}

// verify returns the fault of an assertion; empty for none.
func (s *Server) verify(assertion string, now time.Time) string {
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		return "The assertion is not a JWT."
	}
	var header struct {
		Alg string `json:"alg"`
		Kid string `json:"kid"`
	}
	var claims struct {
		Iss   string `json:"iss"`
		Aud   string `json:"aud"`
		Scope string `json:"scope"`
		Iat   int64  `json:"iat"`
		Exp   int64  `json:"exp"`
	}
	if !decodePart(parts[0], &header) || !decodePart(parts[1], &claims) {
		return "The assertion is not a JWT."
	}
	if header.Alg != "RS256" || header.Kid != keyID {
		return "Invalid JWT: No valid verifier found for issuer."
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err != nil || rsa.VerifyPKCS1v15(&s.key.PublicKey, crypto.SHA256, sum[:], signature) != nil {
		return "Invalid JWT Signature."
	}
	issued, expires := time.Unix(claims.Iat, 0), time.Unix(claims.Exp, 0)
	switch {
	case claims.Iss != clientEmail:
		return "Invalid grant: account not found"
	case claims.Aud != s.URL()+"/token" && claims.Aud != "https://"+standin.ProxyHost+"/token":
		return "Invalid JWT: Failed audience check."
	case issued.After(now.Add(maxSkew)), expires.Before(now.Add(-maxSkew)), expires.Sub(issued) > time.Hour+maxSkew:
		return "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. Check your iat and exp values in the JWT claim."
	case !slices.ContainsFunc(strings.Fields(claims.Scope), func(s string) bool { return slices.Contains(scopes, s) }):
		return "Invalid OAuth scope or ID token audience provided."
	}
	return ""
}

func decodePart(part string, v any) bool {
	text, err := base64.RawURLEncoding.DecodeString(part)
	return err == nil && json.Unmarshal(text, v) == nil
}
