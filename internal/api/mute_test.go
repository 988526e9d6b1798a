package api

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
)

// A mute has a level in its path, stands beside the limits, and is listed with the overrides.
func TestMutes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const user, of, category = "/v1/limits/users/ada", "/v1/limits/users/ada/categories/orders", "/v1/limits/categories/orders"
	for i, c := range []struct {
		path string
		want limits.Level
	}{
		{"/v1/limits/apps/shop/mute", limits.Level{App: "shop"}},
		{user + "/mute", limits.Level{User: "ada"}},
		{user + "/mute?app=shop", limits.Level{App: "shop", User: "ada"}},
		{of + "/mute", limits.Level{User: "ada", Category: "orders"}},
		{of + "/mute?app=shop", limits.Level{App: "shop", User: "ada", Category: "orders"}},
		{category + "/mute", limits.Level{Category: "orders"}},
		{category + "/mute?app=shop", limits.Level{App: "shop", Category: "orders"}},
	} {
		c.want.Mute = true
		var set operate.Setting
		r.do(http.StatusOK, operatorToken, "PUT", c.path, `{"all":true,"until":"2126-01-01T00:00:00Z"}`).into(t, &set)
		if o := set.Override; o.Level != c.want || !o.All || o.By != "ada" || o.Until.Year() != 2126 {
			t.Errorf("%s: %+v", c.path, set)
		}
		var l operate.LevelLimits
		r.do(http.StatusOK, viewerToken, "GET", of+"?app=shop", "").into(t, &l)
		if len(l.Mutes) != i+1 || l.Override != nil || l.General.Source != limits.FromConfiguration || l.OfCategory.Source != limits.FromConfiguration {
			t.Errorf("after %s: %+v", c.path, l)
		}
		r.do(http.StatusForbidden, viewerToken, "PUT", c.path, `{}`)
		r.do(http.StatusForbidden, viewerToken, "DELETE", c.path, "")
	}
	var all operate.Limits
	r.do(http.StatusOK, viewerToken, "GET", "/v1/limits", "").into(t, &all)
	if len(all.Overrides) != 7 || !all.Overrides[0].Mute {
		t.Errorf("%+v", all.Overrides)
	}
	// with an override of its level beside it
	r.do(http.StatusOK, operatorToken, "PUT", user, `{"rates":["1/1h"]}`)
	r.do(http.StatusNoContent, operatorToken, "DELETE", user+"/mute", "")
	r.do(http.StatusNotFound, operatorToken, "DELETE", user+"/mute", "")
	var l operate.LevelLimits
	r.do(http.StatusOK, viewerToken, "GET", user, "").into(t, &l)
	if l.Override == nil || len(l.Mutes) != 0 {
		t.Errorf("%+v", l)
	}
	var log struct {
		Changes []limits.Change `json:"changes"`
	}
	r.do(http.StatusOK, viewerToken, "GET", "/v1/limits/log?limit=1", "").into(t, &log)
	if c := log.Changes[0]; c.Why != "unset" || !c.Mute || c.From == nil || !c.From.All {
		t.Errorf("%+v", c)
	}
	for body, pointer := range map[string]string{
		`{"until":"2001-01-01T00:00:00Z"}`: "/until",
		`{"rates":["1/1h"]}`:               "/rates",
		`{"all":1}`:                        "/all",
	} {
		if p := r.do(http.StatusBadRequest, operatorToken, "PUT", user+"/mute", body).problem(t); len(p.Errors) != 1 || p.Errors[0].Pointer != pointer {
			t.Errorf("%s: %+v", body, p)
		}
	}
	if p := r.do(http.StatusBadRequest, viewerToken, "POST", "/v1/limits/preview", `{"user":"ada","mute":true}`).problem(t); p.Errors[0].Pointer != "/mute" {
		t.Errorf("%+v", p)
	}
	r.do(http.StatusNoContent, operatorToken, "POST", "/v1/limits/import", `{"overrides":[{"user":"bob","mute":true},{"user":"bob","rates":["1/1h"]}]}`)
	if p := r.do(http.StatusBadRequest, operatorToken, "POST", "/v1/limits/import", `{"overrides":[{"user":"bob","mute":true,"rates":["1/1h"]}]}`).problem(t); p.Errors[0].Pointer != "/overrides/0/mute" {
		t.Errorf("%+v", p)
	}
}

// What a mute would end is listed: what is critical passes it, and what is exempt.
func TestWhatAMuteWouldEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	later := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	with := func(id, more string) {
		t.Helper()
		text := strings.Replace(notification(id, "ada"), `"title"`, `"not_before":"`+later+`",`+more+`"title"`, 1)
		r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", text)
	}
	with("plain", "")
	with("critical", `"priority":"critical",`)
	r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", strings.Replace(notification("code", "ada"), "orders", "security", 1))
	for query, want := range map[string]int{"": 3, "&mutable=true": 1, "&mutable=true&category=security": 0} {
		var page control.Page
		r.do(http.StatusOK, viewerToken, "GET", "/v1/waiting?user=ada"+query, "").into(t, &page)
		if len(page.Waiting) != want {
			t.Errorf("%s: %+v", query, page.Waiting)
		}
	}
	r.do(http.StatusBadRequest, viewerToken, "GET", "/v1/waiting?mutable=no", "")
}
