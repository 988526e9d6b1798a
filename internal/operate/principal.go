package operate

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

// LocalName is the principal's name when no API tokens are configured.
const LocalName = "local"

// A Principal makes requests of the API or the console. The zero value may do nothing.
type Principal struct {
	// Name is the token's name.
	Name string
	Role config.Role
	// Apps are the apps that the principal may read and change (scope.go has the rules); nil means
	// all.
	Apps []string
}

// May reports whether the principal has one of these roles.
func (p Principal) May(roles []config.Role) bool { return slices.Contains(roles, p.Role) }

// Tokens are the configured API tokens; Set replaces them while the process runs. The zero value
// has no token: every caller is LocalPrincipal, and the API listens on the loopback.
type Tokens struct {
	list atomic.Pointer[[]config.Token]
}

// Set replaces the tokens.
func (t *Tokens) Set(tokens []config.Token) {
	tokens = slices.Clone(tokens)
	t.list.Store(&tokens)
}

func (t *Tokens) all() []config.Token {
	if list := t.list.Load(); list != nil {
		return *list
	}
	return nil
}

// None reports whether no token is configured.
func (t *Tokens) None() bool { return len(t.all()) == 0 }

// Find returns the configured token with this secret, or nil.
func (t *Tokens) Find(token []byte) *config.Token { return t.Of(sha256.Sum256(token)) }

// Of returns the configured token with this hash, or nil.
func (t *Tokens) Of(hash config.Hash) (known *config.Token) {
	all := t.all()
	for i := range all { // without a break, so that the duration reveals nothing
		if subtle.ConstantTimeCompare(hash[:], all[i].SHA256[:]) == 1 {
			known = &all[i]
		}
	}
	return known
}

// Rate returns the request rate of the named token; nil means unlimited.
func (t *Tokens) Rate(name string) *config.Quota {
	all := t.all()
	i := slices.IndexFunc(all, func(t config.Token) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return all[i].Rate
}

// PrincipalOf returns the token's principal.
func PrincipalOf(t *config.Token) Principal {
	return Principal{Name: t.Name, Role: t.Role, Apps: t.Apps}
}

// LocalPrincipal returns the principal of every request when no tokens are configured.
func LocalPrincipal() Principal { return Principal{Name: LocalName, Role: config.Operator} }

var foreign = http.NewCrossOriginProtection()

// FromHere reports whether a request without a token is acceptable: no page of another
// origin made a browser on this machine send it, by itself or through a host name that
// resolves to the loopback (DNS rebinding).
func FromHere(r *http.Request) bool {
	host := hostname(r)
	return foreign.Check(r) == nil && (host == "localhost" || net.ParseIP(host) != nil)
}

// FromLoopback reports whether the request's Host is a loopback name or address.
func FromLoopback(r *http.Request) bool {
	host := hostname(r)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// hostname returns the request's Host without the port.
func hostname(r *http.Request) string {
	if name, _, err := net.SplitHostPort(r.Host); err == nil {
		return name
	}
	return strings.Trim(r.Host, "[]")
}
