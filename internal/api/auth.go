package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/pushpace/pushpace/internal/config"
)

// keys are the tokens in force.
type keys struct {
	tokens atomic.Pointer[[]config.Token]
}

// SetTokens replaces the tokens. Without any, everyone may do everything, but
// for pages of other origins in a browser on this machine.
func (a *API) SetTokens(tokens []config.Token) {
	tokens = slices.Clone(tokens)
	a.keys.tokens.Store(&tokens)
}

// local is who it was where there are no tokens.
const local = "local"

// identify answers who the request is from, once it is known that they may make
// it.
func (a *API) identify(r *http.Request, roles []config.Role) (string, error) {
	if roles == nil {
		return "", nil
	}
	tokens := *a.keys.tokens.Load()
	if len(tokens) == 0 {
		return local, a.trust(r)
	}
	token := bearer(r)
	if token == nil {
		return "", errNoToken
	}
	hash := config.Hash(sha256.Sum256(token))
	var known *config.Token
	for i := range tokens { // all of them, so that the time tells nothing
		if subtle.ConstantTimeCompare(hash[:], tokens[i].SHA256[:]) == 1 {
			known = &tokens[i]
		}
	}
	if known == nil {
		return "", errUnknownToken
	}
	if !slices.Contains(roles, known.Role) {
		return known.Name, &problem{Status: http.StatusForbidden, Detail: "The token's role, " + string(known.Role) + ", does not allow this."}
	}
	return known.Name, nil
}

// Knows reports whether the request comes with a token that is one; without any
// tokens, whether it may be made at all.
func (a *API) Knows(r *http.Request) bool {
	_, err := a.identify(r, watchers)
	return err == nil
}

var (
	errNoToken      = &problem{Status: http.StatusUnauthorized, Detail: "Send a token: Authorization: Bearer TOKEN."}
	errUnknownToken = &problem{Status: http.StatusUnauthorized, Detail: "This token is not known."}
)

// bearer answers the token that comes with the request, or nil.
// Source: RFC 6750, section 2.1.
func bearer(r *http.Request) []byte {
	values := r.Header["Authorization"]
	if len(values) != 1 {
		return nil
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if token = strings.Trim(token, " "); token == "" || !strings.EqualFold(scheme, "Bearer") {
		return nil
	}
	return []byte(token)
}

// trust refuses what a browser on this machine is made to send: by a page of
// another origin, or through a name that was pointed at the loopback.
func (a *API) trust(r *http.Request) error {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	if a.foreign.Check(r) != nil || ip == nil && host != "localhost" {
		return &problem{Status: http.StatusForbidden, Detail: "Without tokens, only this machine is answered, under localhost or its address, and no page of another origin."}
	}
	return nil
}
