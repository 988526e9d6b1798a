package api

import (
	"net/http"
	"strings"

	"github.com/pushpace/pushpace/internal/operate"
)

// identify returns the request's principal if it may perform the action. A nil action is open
// to everyone, without a token.
func (a *API) identify(r *http.Request, action *operate.Action) (operate.Principal, error) {
	if action == nil {
		return operate.Principal{}, nil
	}
	if a.o.Local != nil {
		return *a.o.Local, nil
	}
	if a.o.Tokens.None() {
		if !operate.FromHere(r) {
			return operate.LocalPrincipal(), errNotFromHere
		}
		return operate.LocalPrincipal(), nil
	}
	token := bearer(r)
	if token == nil {
		return operate.Principal{}, errNoToken
	}
	known := a.o.Tokens.Find(token)
	if known == nil {
		return operate.Principal{}, errUnknownToken
	}
	who := operate.PrincipalOf(known)
	if !action.Allows(who) {
		return who, &operate.RoleError{Role: who.Role}
	}
	return who, nil
}

// Knows reports whether the request has a known token; if no tokens are configured, whether
// the API answers the request at all.
func (a *API) Knows(r *http.Request) bool {
	_, err := a.identify(r, operate.Status)
	return err == nil
}

var (
	errNoToken      = &problem{Status: http.StatusUnauthorized, Detail: "Send a token: Authorization: Bearer TOKEN."}
	errUnknownToken = &problem{Status: http.StatusUnauthorized, Detail: "This token is not known."}
	errNotFromHere  = &problem{Status: http.StatusForbidden, Detail: "Without tokens, the API answers only this machine, under localhost or its address, and no page of another origin."}
)

// bearer returns the request's token, or nil.
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
