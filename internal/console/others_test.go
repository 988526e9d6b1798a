package console

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate/operatetest"
)

// foreignValues maps each parameter to values that refer to another app. {x} becomes "secret", an
// app that exists, or "nobody", an app that does not.
var foreignValues = map[string][]string{
	"id":  {"{x}-app-waits", "{x}-app-letter", "{x}-malformed"},
	"ref": {"id={x}-app-waits", "id={x}-app-letter", "id={x}-malformed", "app={x}-app&id={x}-app-each&user={x}-app-user"},
	"q":   {"{x}-app-waits", "{x}-app-letter", "{x}-app-user"}, "user": {"{x}-app-user", "{x}-user"}, "app": {"{x}-app"},
	"category": {"{x}-app", "{x}-of-all"}, "quota": {"apns/{x}-app", "both"}, "of": {"{x}-app/fcm"},
}

// otherFields are valid values for a form's other fields, so that the request passes as many checks
// as possible.
var otherFields = map[string]string{
	"rates": "5/1m", "reason": "r", "do": "purge", "confirmed": "yes", "expect": "1", "all": "yes", "for": "1h",
}

// combinations returns no value, each value of each name alone, and one value of each name together:
// each of these without and with the other fields.
func combinations(names []string, others map[string]string) []url.Values {
	sets, whole := []url.Values{{}}, url.Values{}
	for _, name := range names {
		for _, value := range foreignValues[name] {
			sets = append(sets, url.Values{name: {value}})
			whole[name] = []string{value}
		}
	}
	sets = append(sets, whole)
	for _, set := range slices.Clone(sets) {
		for _, all := range []bool{false, true} {
			beside := maps.Clone(set)
			for name, value := range others {
				if slices.Contains(names, name) && (all || name != "all") && !set.Has(name) {
					beside.Set(name, value)
				}
			}
			if len(beside) > len(set) && len(set) > 0 {
				sets = append(sets, beside)
			}
		}
	}
	return sets
}

// pathsOf returns the paths of a route with names of the other app's objects.
func pathsOf(r route) []string {
	for name, values := range foreignValues {
		if before, after, found := strings.Cut(r.path, "{"+name+"}"); found {
			var paths []string
			for _, value := range values {
				paths = append(paths, before+url.PathEscape(value)+after)
			}
			return paths
		}
	}
	return []string{strings.ReplaceAll(r.path, "{$}", "")}
}

var passing = regexp.MustCompile(`(?s)<svg.*?</svg>|<time[^>]*>.*?</time>|\b\d+(\.\d+)? ?(µs|ms|s|m|h)(\d+(m|s))*\b`)

// ask replaces {x} in the request, and returns the answer without pictures, instants and
// durations.
func (r *rig) ask(method, address, form, x string) string {
	r.t.Helper()
	fill := strings.NewReplacer("{x}", x, "%7Bx%7D", x)
	browser := *r
	answer := browser.send(sending(method, fill.Replace(address), fill.Replace(form)))
	body, err := io.ReadAll(answer.Body)
	must(r.t, err)
	if answer.StatusCode >= http.StatusInternalServerError {
		r.t.Errorf("%s %s %s: %s", method, address, form, body)
	}
	return fmt.Sprintln(answer.StatusCode, answer.Header.Get("Location")) + passing.ReplaceAllString(string(body), "…")
}

// A page for one app's token shows nothing of another app, and is the same whether that app has
// data or not. No form changes the other app.
func TestPagesHideOtherApps(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *setting) {
		operatetest.TwoApps(&o.Work)
		token := testToken("own", config.Operator, "own-token")
		token.Apps = []string{operatetest.Own}
		o.Tokens.Set([]config.Token{token})
	})
	operatetest.FillOwn(t, r.setting.Work)
	for _, route := range routes {
		if route.action != nil {
			stranger := *r
			answer := stranger.send(httptest.NewRequest(route.method, filled(route.path), nil))
			if leads := strings.HasPrefix(answer.Header.Get("Location"), signInPath); answer.StatusCode != http.StatusUnauthorized && !leads {
				t.Errorf("%s %s for a stranger: %d", route.method, route.path, answer.StatusCode)
			}
		}
	}
	browser := r.as("own-token")
	each := func(method string, f func(address, form string)) {
		for _, route := range routes {
			if route.method != method || route.action == nil {
				continue
			}
			for _, path := range pathsOf(route) {
				for _, query := range combinations(route.query, nil) {
					for _, form := range combinations(route.form, otherFields) {
						f(path+"?"+query.Encode(), form.Encode())
					}
				}
			}
		}
	}
	// the pages of the token's own app
	shown := map[string]string{}
	look := func(address, _ string) {
		address = strings.ReplaceAll(address, "%7Bx%7D-app", operatetest.Own)
		shown[address] = browser.ask(http.MethodGet, address, "", operatetest.Own)
	}
	each(http.MethodGet, look)
	alone := maps.Clone(shown)
	operatetest.FillOther(t, r.setting.Work)
	browser.renew(usual)
	each(http.MethodGet, look)
	for address, after := range shown {
		if before := alone[address]; before != after {
			t.Errorf("%s is another page since there is another app: %s", address, firstDifference(before, after))
		}
	}
	// pages and forms that refer to the other app
	tried := 0
	try := func(method, address, form string) {
		tried++
		names := strings.Contains(address+form, "%7Bx%7D")
		nobody, secret := browser.ask(method, address, form, "nobody"), browser.ask(method, address, form, "secret")
		if !names && strings.Contains(secret, "secret") {
			t.Errorf("%s %s %s shows the other app", method, address, form)
		}
		if nobody, secret = strings.ReplaceAll(nobody, "nobody", "{x}"), strings.ReplaceAll(secret, "secret", "{x}"); nobody != secret {
			t.Errorf("%s %s %s tells what there is from what there is not: %s", method, address, form, firstDifference(nobody, secret))
		}
	}
	each(http.MethodGet, func(address, form string) { try(http.MethodGet, address, form) })
	before := operatetest.Kept(t, r.client)
	each(http.MethodPost, func(address, form string) {
		if strings.Contains(address+form, "%7Bx%7D") { // any other form concerns the token's own app
			try(http.MethodPost, address, form)
		}
	})
	changes, err := r.setting.Work.Overrides.Log(t.Context(), 0, 1)
	must(t, err)
	for _, version := range []int64{changes[0].Version, changes[0].Version + 1} {
		browser.post(http.StatusNotFound, limitsLogPath, url.Values{"version": {fmt.Sprint(version)}, "confirmed": {"yes"}})
	}
	if after := operatetest.Kept(t, r.client); !maps.Equal(before, after) || tried < 100 {
		t.Errorf("of %d attempts some have changed something", tried)
		for key := range before {
			if before[key] != after[key] {
				t.Errorf("%s has changed", key)
			}
		}
	}
}

func firstDifference(a, b string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return a[max(0, i-60):min(len(a), i+100)] + "\n…\n" + b[max(0, i-60):min(len(b), i+100)]
		}
	}
	return fmt.Sprintf("one is %d bytes longer", max(len(a), len(b))-min(len(a), len(b)))
}

// A page for some apps does not show how many letters of all apps were read.
func TestLetterCountsHideOtherApps(t *testing.T) {
	t.Parallel()
	for total, want := range map[int64]string{6000: "0 dead letters match of the 5,000 looked at here; 6,000 are kept in all.", -1: "0 dead letters here; there may be more."} {
		filter := []field{{"app", ""}, {"category", ""}, {"reason", ""}, {"since", ""}}
		if v := viewOfLetters(nil, 5000, filter, "", "1-0", 0, total, time.Now()); v.Answer != want {
			t.Errorf("%d: %s", total, v.Answer)
		}
	}
}
