package console

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/access"
	"github.com/pushpace/pushpace/internal/config"
)

var parameter = regexp.MustCompile(`\{[a-z]+\}`)

// filled is the path with names in the place of its parameters.
func filled(path string) string {
	return strings.ReplaceAll(parameter.ReplaceAllString(path, "none"), "{$}", "")
}

// rolesOf are those that may use the route.
func rolesOf(r route) (all []config.Role) {
	for _, role := range []config.Role{config.Viewer, config.Operator} {
		if r.action != nil && r.action.Allows(access.Bearer{Role: role}) {
			all = append(all, role)
		}
	}
	return all
}

// What each role may do is what the routes say, and nobody may do anything else.
func TestRoles(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens)
	browsers := map[config.Role]*rig{config.Viewer: r.as(viewerToken), config.Operator: r.as(operatorToken), config.Producer: r.as(operatorToken)}
	tokens := testTokens()
	for _, route := range routes {
		ask := func(b *rig) (status int, to string) {
			req := httptest.NewRequest(route.method, filled(route.path), nil)
			if route.serve != nil { // it may never end
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				req = req.WithContext(ctx)
			}
			browser := *b // which keeps its cookie
			answer := browser.send(req)
			return answer.StatusCode, answer.Header.Get("Location")
		}
		signIn := func(status int, to string) bool {
			return status == http.StatusUnauthorized && route.method == http.MethodPost || status == http.StatusSeeOther && strings.HasPrefix(to, signInPath+"?next=") ||
				status == http.StatusSeeOther && to == signInPath && filled(route.path) == Path
		}
		if route.action == nil {
			if !slices.Contains([]string{"/console", signInPath, signOutPath, "/console/static/{file}"}, route.path) {
				t.Errorf("%s %s is for everyone", route.method, route.path)
			}
			continue
		}
		if route.method != http.MethodGet && route.method != http.MethodPost {
			t.Errorf("%s %s: a browser sends no such thing", route.method, route.path)
		}
		if status, to := ask(r); !signIn(status, to) {
			t.Errorf("%s %s for a stranger: %d %s", route.method, route.path, status, to)
		}
		for role, browser := range browsers {
			if role == config.Producer { // signed in while it was an operator's
				r.setting.Tokens.Set([]config.Token{testToken("ada", config.Producer, operatorToken), tokens[1]})
			}
			status, to := ask(browser)
			r.setting.Tokens.Set(tokens)
			may := slices.Contains(rolesOf(route), role)
			if !may && status != http.StatusForbidden || may && (status == http.StatusForbidden || signIn(status, to)) {
				t.Errorf("%s %s for a %s: %d %s", route.method, route.path, role, status, to)
			}
		}
		if want := route.method == http.MethodGet; slices.Contains(rolesOf(route), config.Viewer) != want || !slices.Contains(rolesOf(route), config.Operator) {
			t.Errorf("%s %s is for %v: viewers look, operators change", route.method, route.path, rolesOf(route))
		}
	}
}
