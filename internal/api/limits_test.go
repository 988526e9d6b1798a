package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// levels maps a query string to the level that it names, with an example of each kind of level.
var levels = map[string]limits.Level{
	"app=shop":                                    {App: "shop"},
	"user=a%2Fb%20c":                              {User: "a/b c"},
	"app=shop&user=ada":                           {App: "shop", User: "ada"},
	"user=ada&category=orders":                    {User: "ada", Category: "orders"},
	"app=shop&user=ada&category=orders":           {App: "shop", User: "ada", Category: "orders"},
	"category=orders":                             {Category: "orders"},
	"category=orders&app=shop":                    {App: "shop", Category: "orders"},
	"quota=eu%20west":                             {Quota: "quota/eu%20west"},
	"user=bob&mute=true":                          {User: "bob", Mute: true},
	"app=shop&user=bob&category=orders&mute=true": {App: "shop", User: "bob", Category: "orders", Mute: true},
	"category=orders&mute=true":                   {Category: "orders", Mute: true},
	"app=shop&mute=true":                          {App: "shop", Mute: true},
}

func withQuota(o *rigOptions) {
	o.Quotas = func() (operate.Quotas, error) {
		return operate.Quotas{{Key: "quota/eu%20west", Name: "eu west", Apps: []string{"shop"}, Quota: config.Quota{Rate: throttle.Rate{Count: 600_000, Period: time.Minute}}}}, nil
	}
}

const overridesPath = "/v1/overrides"

// An override, or a mute, is set, shown, listed, logged and removed at each level.
func TestOverrideIsSetShownAndRemoved(t *testing.T) {
	t.Parallel()
	r := newRig(t, demo, withQuota)
	for query, level := range levels {
		body := `{"rates":["300/1m"],"until":"2126-01-01T00:00:00Z"}`
		if level.Mute {
			body = `{"all":true,"until":"2126-01-01T00:00:00Z"}`
		}
		set := into[operate.Setting](r.do(http.StatusOK, operatorToken, "PUT", overridesPath+"?"+query, body))
		if o := set.Override; o.Level != level || o.By != "ada" || o.At.IsZero() || o.Until.Year() != 2126 || o.All != level.Mute {
			t.Errorf("%s: %+v", query, set)
		}
		if level.Mute || level.Quota != "" {
			continue
		}
		if l := into[operate.Limits](r.do(http.StatusOK, viewerToken, "GET", "/v1/limits?"+query, "")); l.Override == nil || l.Override.Level != level || l.OfCategory == nil != (level.Category == "") {
			t.Errorf("%s: %+v", query, l)
		}
	}
	configured := into[operate.Limits](r.do(http.StatusOK, viewerToken, "GET", "/v1/limits", ""))
	if configured.General.Policy.MinGap != time.Second || configured.General.Source != limits.FromConfiguration || !configured.Categories["security"].Policy.Exempt || configured.Horizon != "24h" {
		t.Errorf("%+v", configured)
	}
	for query, want := range map[string]int{"": len(levels), "?app=shop": 6, "?user=bob": 2, "?category=orders&app=shop": 3, "?user=eve": 0} {
		if page := into[operate.OverridePage](r.do(http.StatusOK, viewerToken, "GET", overridesPath+query, "")); len(page.Overrides) != want || page.Next != "" {
			t.Errorf("%q: %+v", query, page)
		}
	}
	its := into[struct{ Quotas []operate.QuotaStatus }](r.do(http.StatusOK, viewerToken, "GET", "/v1/quotas", ""))
	if q := its.Quotas[0]; q.Limit != "300/1m" || q.Source != limits.FromQuota || q.By != "ada" {
		t.Errorf("%+v", q)
	}
	for query, level := range levels {
		r.do(http.StatusNoContent, operatorToken, "DELETE", overridesPath+"?"+query, "")
		r.do(http.StatusNotFound, operatorToken, "DELETE", overridesPath+"?"+query, "")
		log := into[struct{ Changes []limits.Change }](r.do(http.StatusOK, viewerToken, "GET", overridesPath+"/log?limit=1", ""))
		if c := log.Changes[0]; c.Level != level || c.Why != "unset" || c.By != "ada" || c.From == nil {
			t.Errorf("%s: %+v", query, c)
		}
	}
	for _, path := range []string{"?cursor=x", "?limit=1001", "/log?before=0", "/log?limit=0"} {
		r.do(http.StatusBadRequest, viewerToken, "GET", overridesPath+path, "")
	}
	for _, query := range []string{"", "?mute=true", "?user=ada&mute=yes"} {
		r.do(http.StatusBadRequest, operatorToken, "DELETE", overridesPath+query, "")
	}
	r.do(http.StatusOK, operatorToken, "PUT", overridesPath+"?user=ada", `{"min_gap":"1s","quiet_hours":["Mo-Fr 22:00-08:00"]}`)
	if body := r.do(http.StatusOK, viewerToken, "GET", "/v1/limits?user=ada", "").text; !strings.Contains(body, `"quiet_hours":["Mo-Fr 22:00-08:00"],"time_zone":"Europe/Berlin","quiet_hours_spread":"10m"`) {
		t.Error(body)
	}
	set := into[operate.Setting](r.do(http.StatusOK, operatorToken, "PUT", overridesPath+"?user=ada", `{"min_gap":"1m","quiet_hours":[]}`))
	if len(set.Warnings) != 1 || set.Warnings[0] != "quiet hours Mo-Fr 22:00-08:00 no longer hold: an override replaces the whole policy" {
		t.Errorf("%+v", set)
	}
}

// An invalid override is refused with a pointer to each fault, and changes nothing. The rules
// of policies are tested in throttle/limits.
func TestInvalidOverrideIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, demo, withQuota)
	const put, preview, imports = "PUT " + overridesPath, "POST " + overridesPath + "/preview", "POST " + overridesPath + "/import"
	const of = put + "?user=ada"
	for _, c := range []struct {
		route, body string
		pointers    []string
	}{
		{of, `{}`, []string{"/min_gap"}},
		{of, `{"min_gap":1,"rates":[5,"10/1m"],"exempt":"no","until":"soon","gap":"1s"}`, []string{"/exempt", "/gap", "/min_gap", "/rates/0", "/until"}},
		{of, `{"rates":["10/1m","-1/1m","` + canary + `"],"quiet_hours":["22-8"]}`, []string{"/quiet_hours/0", "/rates/1", "/rates/2"}},
		{of, `{"min_gap":"1s","until":"2020-01-01T00:00:00Z"}`, []string{"/until"}},
		{of, `{"min_gap":"1s","MIN_GAP":"2s"}`, []string{"/MIN_GAP"}},
		{of, `{"user":"ada","mute":true,"min_gap":"1s","by":"eve","at":"2026-01-01T00:00:00Z"}`, []string{"/by", "/at", "/user", "/mute"}},
		{put, `{"min_gap":"1s"}`, nil},
		{put + "?category=all", `{"min_gap":"1s"}`, []string{""}},
		{put + "?user=a%00" + canary, `{"min_gap":"1s"}`, nil},
		{of + "&app=", `{"min_gap":"1s"}`, nil},
		{put + "?quota=eu%20west", `{"rates":["1/1m","2/1h"]}`, []string{"/rates"}},
		{put + "?quota=eu%20west&user=ada", `{"rates":["1/1m"]}`, []string{""}},
		{of + "&mute=true", `{"rates":["1/1h"]}`, []string{""}},
		{preview + "?user=ada&remove=true", `{"min_gap":"1s"}`, []string{""}},
		{preview + "?user=ada&mute=true", `{}`, nil},
		{preview + "?user=ada", `{"all":true,"min_gap":"1s"}`, []string{"/all"}},
		{imports, `{"overrides":[]}`, []string{"/overrides"}},
		{imports, `{"overrides":[` + strings.Repeat(`{"user":"ada","min_gap":"1s"},`, maxImport) + `{"user":"ada","min_gap":"1s"}]}`, []string{"/overrides"}},
		{imports, `{"overrides":[{"user":"ada","min_gap":"1s"},{"user":"ben","rates":["1/1m","x"]}]}`, []string{"/overrides/1/rates/1"}},
		{imports, `{"overrides":[{"user":"ada","min_gap":"1s"},{"quota":"none","rates":["1/1m"]}]}`, []string{"/overrides/1"}},
		{imports, `{"overrides":[{"user":"ada","min_gap":"1s"},{"user":"ada","min_gap":"2s"}]}`, []string{"/overrides/1"}},
		{imports + "?dry_run=yes", `{"overrides":[{"user":"ada","min_gap":"1s"}]}`, nil},
	} {
		method, path, _ := strings.Cut(c.route, " ")
		p := r.do(http.StatusBadRequest, operatorToken, method, path, c.body).problem(t)
		if !slices.Equal(pointers(p), c.pointers) {
			t.Errorf("%s %.80s: %q, want %q: %+v", c.route, c.body, pointers(p), c.pointers, p)
		}
		if lines := r.logged(); len(lines) != 1 || strings.Contains(lines[0], canary) {
			t.Errorf("logged %q", lines)
		}
	}
	if page := into[operate.OverridePage](r.do(http.StatusOK, viewerToken, "GET", overridesPath, "")); len(page.Overrides) != 0 {
		t.Errorf("%+v", page)
	}
}

// An import sets all of its overrides, and a dry run sets nothing.
func TestImportSetsAllOverrides(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const body = `{"overrides":[{"user":"ada","min_gap":"1s"},{"user":"bob","mute":true},{"app":"shop","category":"news","rates":["1/1m"],"until":"2126-01-01T00:00:00Z"}]}`
	for i, query := range []string{"?dry_run=true", ""} {
		r.do(http.StatusNoContent, operatorToken, "POST", overridesPath+"/import"+query, body)
		if page := into[operate.OverridePage](r.do(http.StatusOK, viewerToken, "GET", overridesPath, "")); len(page.Overrides) != 3*i {
			t.Errorf("%+v", page)
		}
	}
	if log := strings.Join(r.logged(), "\n"); strings.Count(log, `"msg":"limits are imported","by":"ada","remote":"192.0.2.1:1234","count":3`) != 1 {
		t.Errorf("%v", log)
	}
}
