// Package access says who makes a request, and what they may see and change: by
// the tokens of the configuration, for the API and the console alike.
package access

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

// Local is the name of everyone on this machine, where there are no tokens.
const Local = "local"

// A Bearer is who makes a request. The zero value may do nothing.
type Bearer struct {
	// Name is the token's.
	Name string
	Role config.Role
	// Apps are those that it sees and changes, and none that concerns others (see
	// internal/operate/scope.go); nil for all.
	Apps []string
}

// May reports whether its role is one of these.
func (b Bearer) May(roles []config.Role) bool { return slices.Contains(roles, b.Role) }

// Tokens are those in force. The zero value has none: everyone may do everything
// who reaches the address, which then is on the loopback.
type Tokens struct {
	list atomic.Pointer[[]config.Token]
}

// Set replaces them.
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

// None reports whether there are none.
func (t *Tokens) None() bool { return len(t.all()) == 0 }

// Find returns the token, nil when it is not one of them.
func (t *Tokens) Find(token []byte) *config.Token { return t.Of(sha256.Sum256(token)) }

// Of returns the token of this hash, nil when it is not one of them.
func (t *Tokens) Of(hash config.Hash) (known *config.Token) {
	all := t.all()
	for i := range all { // each of them, so that the time tells nothing
		if subtle.ConstantTimeCompare(hash[:], all[i].SHA256[:]) == 1 {
			known = &all[i]
		}
	}
	return known
}

// Rate is that of the token of this name; nil for none.
func (t *Tokens) Rate(name string) *config.Quota {
	all := t.all()
	i := slices.IndexFunc(all, func(t config.Token) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return all[i].Rate
}

// BearerOf returns who bears the token.
func BearerOf(t *config.Token) Bearer { return Bearer{Name: t.Name, Role: t.Role, Apps: t.Apps} }

// Nobody returns who makes a request where there are no tokens.
func Nobody() Bearer { return Bearer{Name: Local, Role: config.Operator} }

var foreign = http.NewCrossOriginProtection()

// FromHere reports whether a request that needs no token may be made: it is not what
// a browser on this machine is made to send, by a page of another origin or through a
// name that was pointed at the loopback.
func FromHere(r *http.Request) bool {
	host := hostname(r)
	return foreign.Check(r) == nil && (host == "localhost" || net.ParseIP(host) != nil)
}

// Loopback reports whether who made the request calls this machine by a name or an
// address of its own loopback.
func Loopback(r *http.Request) bool {
	host := hostname(r)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// hostname is what the request calls this machine, without the port.
func hostname(r *http.Request) string {
	if name, _, err := net.SplitHostPort(r.Host); err == nil {
		return name
	}
	return strings.Trim(r.Host, "[]")
}
