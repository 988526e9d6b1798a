package console

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/api/problems"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
)

// A signInView is the data of signin.html.
type signInView struct {
	// Refused replaces the form by instructions: the token would travel unencrypted.
	Refused bool
	Origin  string // http.console.origin
	Next    string // the address to go to afterwards
	Wrong   string // the problem with the token
}

// attempts limits the unknown API tokens tried from an address, across all processes. Clients of
// one proxy share its address.
var attempts = meter.Spec{Rates: []throttle.Rate{{Count: 20, Period: time.Minute}}}

const tokenUnknown = "This token is not known."

func (c *Console) signInPage(ctx context.Context, v *visit) (page, error) {
	next := inside(v.query.Get("next"))
	switch who, err := c.identify(ctx, v.Request); {
	case err == nil && operate.Look.Allows(who):
		return page{to: next}, nil
	case err != nil && err != errSignIn:
		return page{}, err
	}
	if _, allowed := c.cookieFor(v.Request); !allowed {
		return c.signInRefused(), nil
	}
	return signInForm(http.StatusOK, signInView{Next: next}), nil
}

func (c *Console) signIn(ctx context.Context, v *visit) (page, error) {
	next := inside(v.form.Get("next"))
	if c.o.Tokens.None() {
		return page{to: next}, nil
	}
	cookie, allowed := c.cookieFor(v.Request)
	if !allowed {
		return c.signInRefused(), nil
	}
	from := "signin/" + addressOf(v.RemoteAddr)
	taken, err := c.o.Meter.Take(ctx, from, attempts, meter.Ask{Least: 1, Most: 1})
	if err != nil {
		return page{}, err
	}
	if taken.Units == 0 {
		c.logRejection(v, "a sign-in was refused", &problems.Problem{Status: http.StatusTooManyRequests}, "")
		seconds := (taken.Left + time.Second - 1) / time.Second
		return signInForm(http.StatusTooManyRequests, signInView{Next: next, Wrong: fmt.Sprintf("Too many tokens were tried from your address: try again in %d s.", seconds)}), nil
	}
	token := c.o.Tokens.Find([]byte(strings.TrimSpace(v.form.Get("token"))))
	if token == nil {
		c.logRejection(v, "a sign-in was refused", &problems.Problem{Status: http.StatusUnauthorized}, "")
		return signInForm(http.StatusUnauthorized, signInView{Next: next, Wrong: tokenUnknown}), nil
	}
	_, _ = c.o.Meter.Take(ctx, from, attempts, meter.Ask{Most: -1}) // an error is harmless: the unit returns within seconds
	if token.Role == config.Producer {
		c.logRejection(v, "a sign-in was refused", &problems.Problem{Status: http.StatusForbidden}, token.Name)
		return signInForm(http.StatusForbidden, signInView{Next: next, Wrong: errNoConsole.detail}), nil
	}
	if cookie.Value, err = c.sessions.begin(ctx, token); err != nil {
		return page{}, err
	}
	_, _ = c.sessions.end(ctx, c.sessionID(v.Request)) // an error is harmless: the browser forgets the session, which expires
	cookie.MaxAge = int(sessionLife / time.Second)
	c.log.Info("signed in", "token", token.Name, "remote", v.RemoteAddr)
	return page{to: next, cookie: &cookie}, nil
}

func (c *Console) signOut(ctx context.Context, v *visit) (page, error) {
	ended, err := c.sessions.end(ctx, c.sessionID(v.Request))
	if err != nil {
		return page{}, err
	}
	if ended != nil {
		c.log.Info("signed out", "token", ended.Name, "remote", v.RemoteAddr)
	}
	cookie, _ := c.cookieFor(v.Request)
	cookie.MaxAge = -1
	return page{to: signInPath + "?done=signed-out", cookie: &cookie}, nil
}

func signInForm(status int, view signInView) page {
	return page{name: "signin", title: "Sign in", status: status, data: view}
}

func (c *Console) signInRefused() page {
	return signInForm(http.StatusForbidden, signInView{Refused: true, Origin: c.origin})
}

// addressOf returns the part of a remote address that identifies a client: for IPv6 the /64
// network, all of which one machine may use.
func addressOf(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return ""
	}
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is4() {
		return addr.String()
	}
	network, _ := addr.Prefix(64) // an IPv6 address has 128 bits
	return network.String()
}

// maxNext bounds the address to go to after the sign-in, in bytes.
const maxNext = 2 * maxPath

// inside returns the address if it is a page of the console, and the first page's otherwise.
func inside(next string) string {
	u, err := url.Parse(next)
	if err != nil || len(next) > maxNext || !strings.HasPrefix(next, Path) || strings.ContainsRune(next, '\\') ||
		!tidy(u.EscapedPath()) || slices.Contains(strings.Split(u.Path, "/"), "..") || u.Path == signInPath || u.Path == signOutPath {
		return Path
	}
	return u.RequestURI()
}

// signInAddress returns the address of the sign-in that leads on to the request's page.
func signInAddress(r *http.Request) string {
	next := inside(r.URL.RequestURI())
	if next == Path || r.Method == http.MethodPost {
		return signInPath
	}
	return signInPath + "?next=" + url.QueryEscape(next)
}
