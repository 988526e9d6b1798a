package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/strictjson"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/quotas"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const user, of = "/v1/limits/users/a%2Fb%20c", "/v1/limits/users/a%2Fb%20c/categories/marketing"
	const category = "/v1/limits/categories/marketing"
	get := func(path string) operate.LevelLimits {
		t.Helper()
		var l operate.LevelLimits
		r.do(http.StatusOK, viewerToken, "GET", path, "").into(t, &l)
		return l
	}
	if l := get(of); l.User != "a/b c" || l.Category != "marketing" || l.General.Policy.MinGap != time.Second || l.General.Source != limits.FromConfiguration || l.OfCategory == nil || l.Override != nil {
		t.Errorf("%+v", l)
	}
	if l := get("/v1/limits/categories/security"); l.OfCategory == nil || !l.OfCategory.Policy.Exempt {
		t.Errorf("%+v", l)
	}
	var set operate.Setting
	r.do(http.StatusOK, operatorToken, "PUT", user, `{"min_gap":"500ms","rates":["30/1m"],"until":"2126-01-01T00:00:00Z"}`).into(t, &set)
	if o := set.Override; o.User != "a/b c" || o.By != "ada" || o.At.IsZero() || o.Policy.MinGap != 500*time.Millisecond || len(set.Warnings) != 0 {
		t.Errorf("%+v", set)
	}
	r.do(http.StatusOK, operatorToken, "PUT", category, `{"rates":["1/24h"]}`)
	if l := get(of); l.General.Source != limits.FromUser || l.General.Until.IsZero() || l.OfCategory.Source != limits.FromCategory || l.Override != nil {
		t.Errorf("%+v", l)
	}
	r.do(http.StatusOK, operatorToken, "PUT", of, `{"exempt":true}`)
	if l := get(of); l.OfCategory.Source != limits.FromUserCategory || !l.OfCategory.Policy.Exempt || l.Override == nil {
		t.Errorf("%+v", l)
	}
	if l := get(user); l.Override == nil || l.OfCategory != nil || l.General.Policy.MinGap != 500*time.Millisecond {
		t.Errorf("%+v", l)
	}
	set = operate.Setting{}
	r.do(http.StatusOK, operatorToken, "PUT", user, `{"min_gap":"1m","rates":["100/1h"]}`).into(t, &set)
	if len(set.Warnings) != 1 || !strings.Contains(set.Warnings[0], "100/1h") {
		t.Errorf("%+v", set)
	}
	const own = `"quiet_hours":["Mo-Fr 22:00-08:00"]`
	set = operate.Setting{}
	r.do(http.StatusOK, operatorToken, "PUT", user, `{"min_gap":"1s",`+own+`}`).into(t, &set)
	if body := r.do(http.StatusOK, viewerToken, "GET", user, "").text; !strings.Contains(body, own+`,"time_zone":"Europe/Berlin","quiet_hours_spread":"10m"`) || set.Override.Policy.Quiet.String() != "Mo-Fr 22:00-08:00" {
		t.Errorf("%+v, %s", set, body)
	}
	r.do(http.StatusOK, operatorToken, "PUT", user, `{"min_gap":"1m","quiet_hours":[]}`).into(t, &set)
	if len(set.Warnings) != 1 || set.Warnings[0] != "quiet hours Mo-Fr 22:00-08:00 no longer hold: an override replaces the whole policy" {
		t.Errorf("%+v", set)
	}
	r.do(http.StatusOK, operatorToken, "PUT", of, `{"quiet_hours":[]}`)
	if l := get(of); l.OfCategory.Policy.Quiet == nil || len(l.OfCategory.Policy.Quiet) > 0 {
		t.Errorf("%+v", l)
	}
	var all operate.Limits
	r.do(http.StatusOK, viewerToken, "GET", "/v1/limits", "").into(t, &all)
	if all.Default.Policy.MinGap != time.Second || !all.Categories["security"].Policy.Exempt || len(all.Overrides) != 3 {
		t.Errorf("%+v", all)
	}
	r.do(http.StatusOK, operatorToken, "PUT", "/v1/limits/apps/shop", `{"rates":["7/1h"]}`)
	r.do(http.StatusOK, operatorToken, "PUT", of+"?app=shop", `{"rates":["8/1h"]}`)
	if l := get(of + "?app=shop"); l.App != "shop" || l.General.Source != limits.FromUser || l.OfCategory.Source != limits.FromAppUserCategory || l.Override == nil || l.Override.App != "shop" {
		t.Errorf("%+v", l)
	}
	if l := get(category + "?app=shop"); l.General.Source != limits.FromApp || l.OfCategory.Source != limits.FromCategory || l.Override != nil {
		t.Errorf("%+v", l)
	}
	if l := get(of); l.OfCategory.Source != limits.FromUserCategory {
		t.Errorf("an app's override is in force in all of them: %+v", l)
	}
	for _, path := range []string{"/v1/limits/apps/shop", of + "?app=shop"} {
		r.do(http.StatusNoContent, operatorToken, "DELETE", path, "")
	}
	r.do(http.StatusForbidden, viewerToken, "DELETE", user, "")
	r.do(http.StatusNoContent, operatorToken, "DELETE", user, "")
	r.do(http.StatusNotFound, operatorToken, "DELETE", user, "")
	if l := get(user); l.Override != nil || l.General.Source != limits.FromConfiguration {
		t.Errorf("%+v", l)
	}
	var log struct {
		Changes []limits.Change `json:"changes"`
	}
	r.do(http.StatusOK, viewerToken, "GET", "/v1/limits/log?limit=3", "").into(t, &log)
	if len(log.Changes) != 3 || log.Changes[0].Why != "unset" || log.Changes[0].By != "ada" || log.Changes[0].From == nil || log.Changes[0].Version != 12 {
		t.Errorf("%+v", log)
	}
}

// Overrides and their log come in pages, which have all of them.
func TestPagesOfLimits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const overrides = 1200
	all := make([]limits.Override, overrides)
	for i := range all {
		all[i] = limits.Override{Level: limits.Level{User: fmt.Sprintf("user-%d", i)}, By: "ada", Policy: throttle.Policy{MinGap: time.Minute}}
	}
	if err := r.options.Overrides.Import(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	seen, pages := map[string]bool{}, 0
	for cursor := ""; cursor != "" || pages == 0; pages++ {
		var page operate.Limits
		r.do(http.StatusOK, viewerToken, "GET", "/v1/limits?limit=100&cursor="+cursor, "").into(t, &page)
		for _, o := range page.Overrides {
			seen[o.User] = true
		}
		if cursor = page.Next; page.Horizon != "24h0m0s" || len(page.Overrides) > 300 {
			t.Fatalf("%d overrides, horizon %s", len(page.Overrides), page.Horizon)
		}
	}
	if len(seen) != overrides || pages < 4 {
		t.Errorf("%d overrides on %d pages", len(seen), pages)
	}
	next := int64(overrides)
	for query := "?limit=500"; next > 0; query = fmt.Sprintf("?limit=500&before=%d", next+1) {
		var page struct {
			Changes []limits.Change `json:"changes"`
		}
		r.do(http.StatusOK, viewerToken, "GET", "/v1/limits/log"+query, "").into(t, &page)
		if len(page.Changes) == 0 {
			t.Fatalf("nothing before version %d", next+1)
		}
		for _, c := range page.Changes {
			if c.Version != next {
				t.Fatalf("version %d, want %d", c.Version, next)
			}
			next--
		}
	}
	for _, path := range []string{"?cursor=x", "?cursor=0", "?limit=1001", "/log?before=0", "/log?before=x"} {
		r.do(http.StatusBadRequest, viewerToken, "GET", "/v1/limits"+path, "")
	}
}

// What no operator means is refused, by name, and changes nothing.
func TestBadLimits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, c := range []struct {
		path, body string
		pointers   []string
	}{
		{"/v1/limits/users/ada", `{}`, []string{"/min_gap"}},
		{"/v1/limits/users/ada", `null`, []string{""}},
		{"/v1/limits/users/ada", `{"min_gap":1,"rates":[5,"10/1m"],"exempt":"no","until":"soon","gap":"1s"}`, []string{"/exempt", "/gap", "/min_gap", "/rates/0", "/until"}},
		{"/v1/limits/users/ada", `{"rates":["10/1m","-1/1m","10/0s","` + canary + `"]}`, []string{"/rates/1", "/rates/2", "/rates/3"}},
		{"/v1/limits/users/ada", `{"rates":["1000000/1s"]}`, []string{"/rates"}},
		{"/v1/limits/users/ada", `{"min_gap":"48h"}`, []string{"/min_gap"}},
		{"/v1/limits/users/ada", `{"min_gap":"-1s"}`, []string{"/min_gap"}},
		{"/v1/limits/users/ada", `{"min_gap":"1h","rates":["10/1m"]}`, []string{"/min_gap"}},
		{"/v1/limits/users/ada", `{"exempt":true}`, []string{"/exempt"}},
		{"/v1/limits/users/ada", `{"min_gap":"1s","until":"2020-01-01T00:00:00Z"}`, []string{"/until"}},
		{"/v1/limits/users/ada", `{"min_gap":"1s","until":"0001-01-01T00:00:00Z"}`, []string{"/until"}},
		{"/v1/limits/users/ada", `{"min_gap":"1s","min_gap":"2s"}`, []string{"/min_gap"}},
		{"/v1/limits/users/ada", `{"rates":["1/1s","2/2s","3/3s","4/4s","5/5s","6/6s","7/7s","8/8s","9/9s"]}`, []string{"/rates"}},
		{"/v1/limits/categories/all", `{"min_gap":"1s"}`, []string{""}},
		{"/v1/limits/users/a%00" + canary, `{"min_gap":"1s"}`, nil},
		{"/v1/limits/users/%FF", `{"min_gap":"1s"}`, nil},
		{"/v1/limits/users/ada?app=", `{"min_gap":"1s"}`, nil},
		{"/v1/limits/users/ada?app=%00", `{"min_gap":"1s"}`, nil},
		{"/v1/limits/users/ada?apps=shop", `{"min_gap":"1s"}`, nil},
		{"/v1/limits/apps/%00", `{"min_gap":"1s"}`, nil},
		{"/v1/limits/apps/shop", `{"exempt":true}`, []string{"/exempt"}},
		{"/v1/limits/users/" + strings.Repeat("x", 129), `{"min_gap":"1s"}`, nil},
		{"/v1/limits/users/ada/categories/%0A", `{"min_gap":"1s"}`, nil},
	} {
		p := r.do(http.StatusBadRequest, operatorToken, "PUT", c.path, c.body).problem(t)
		var pointers []string
		for _, f := range p.Errors {
			pointers = append(pointers, f.Pointer)
		}
		if !slices.Equal(pointers, c.pointers) {
			t.Errorf("%s: pointers %q, want %q: %+v", c.body, pointers, c.pointers, p.Errors)
		}
		if lines := r.logged(); len(lines) != 1 || strings.Contains(lines[0], canary) {
			t.Errorf("logged %q", lines)
		}
	}
	for _, path := range []string{"/v1/limits/users/%00", "/v1/limits/categories/%00", "/v1/limits/log?limit=0"} {
		r.do(http.StatusBadRequest, viewerToken, "GET", path, "")
	}
	r.do(http.StatusBadRequest, operatorToken, "DELETE", "/v1/limits/users/%00", "")
	var all operate.Limits
	r.do(http.StatusOK, viewerToken, "GET", "/v1/limits", "").into(t, &all)
	if len(all.Overrides) != 0 {
		t.Errorf("%+v", all.Overrides)
	}
}

// Of an import all is set, or nothing where something is not valid.
func TestImportLimits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	count := func() int {
		var all operate.Limits
		r.do(http.StatusOK, viewerToken, "GET", "/v1/limits", "").into(t, &all)
		return len(all.Overrides)
	}
	for body, pointer := range map[string]string{
		`{}`:               "/overrides",
		`{"overrides":[]}`: "/overrides",
		`{"overrides":[` + strings.Repeat(`{"user":"ada","min_gap":"1s"},`, maxImport) + `{"user":"ada","min_gap":"1s"}]}`: "/overrides",
		`{"overrides":[{"user":"ada","min_gap":"1s"},{"user":"ben","min_gap":"48h"}]}`:                                     "/overrides/1/min_gap",
		`{"overrides":[{"user":"ada","min_gap":"1s"},{"user":"ben","rates":["1/1m","x"]}]}`:                                "/overrides/1/rates/1",
		`{"overrides":[{"user":"ada","min_gap":"1s"},{"quota":"none","rates":["1/1m"]}]}`:                                  "/overrides/1",
		`{"overrides":[{"user":"ada","min_gap":"1s","min_gap":"2s"}]}`:                                                     "/overrides/0/min_gap",
		`{"overrides":[{"user":"ada","min_gap":"1s"},{"user":"ada","min_gap":"2s"}]}`:                                      "/overrides/1",
		`{"overrides":[{"user":"ada","min_gap":"1s","by":"eve"}]}`:                                                         "/overrides/0/by",
	} {
		p := r.do(http.StatusBadRequest, operatorToken, "POST", "/v1/limits/import?dry_run=true", body).problem(t)
		r.do(http.StatusBadRequest, operatorToken, "POST", "/v1/limits/import", body)
		if len(p.Errors) != 1 || p.Errors[0].Pointer != pointer {
			t.Errorf("%.80s: %+v, want %s", body, p.Errors, pointer)
		}
	}
	r.do(http.StatusForbidden, viewerToken, "POST", "/v1/limits/import", "")
	r.do(http.StatusBadRequest, operatorToken, "POST", "/v1/limits/import?dry_run=yes", `{"overrides":[{"user":"ada","min_gap":"1s"}]}`)
	r.do(http.StatusNoContent, operatorToken, "POST", "/v1/limits/import?dry_run=true", `{"overrides":[{"user":"ada","min_gap":"1s"}]}`)
	if n := count(); n != 0 {
		t.Errorf("%d are set", n)
	}
	r.do(http.StatusNoContent, operatorToken, "POST", "/v1/limits/import", `{"overrides":[{"user":"ada","min_gap":"1s"},{"app":"shop","category":"news","rates":["1/1m"],"until":"2126-01-01T00:00:00Z"}]}`)
	if n := count(); n != 2 {
		t.Errorf("%d are set", n)
	}
	if log := strings.Join(r.logged(), "\n"); !strings.Contains(log, `"msg":"limits are imported","by":"ada","remote":"192.0.2.1:1234","count":2`) {
		t.Errorf("%v", log)
	}
}

// Whatever is sent as an override is refused with faults, or is valid.
func FuzzOverride(f *testing.F) {
	for _, seed := range []string{`{"min_gap":"1s","rates":["10/1m"],"exempt":false,"until":"2126-01-01T00:00:00Z"}`, `{"rates":[""]}`, `{"rates":null}`, `[]`, `{"min_gap":"9999999h"}`, `{"rates":["1/1ns","1/1ns"]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var w wanted
		err := strictjson.Parse(body, &w)
		var o limits.Override
		if err == nil {
			o, err = w.override(limits.Level{User: "ada"})
		}
		if err == nil {
			o.By = "fuzz"
			err = inBody(o.Validate(24 * time.Hour))
		}
		if err != nil {
			if p := problemOf(err); p.Status != http.StatusBadRequest || len(p.Errors) == 0 {
				t.Fatalf("%+v", p)
			}
			return
		}
		if err := o.Validate(24 * time.Hour); err != nil {
			t.Fatal(err)
		}
	})
}

// What all workers together may do is listed, and its rate changed, by its key or name.
func TestQuotas(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *rigOptions) {
		o.Quotas = func() (quotas.Quotas, error) {
			return quotas.Quotas{{Key: "quota/eu%20west", Name: "eu west", Apps: []string{"shop"}, Quota: config.Quota{Rate: throttle.Rate{Count: 600_000, Period: time.Minute}}}}, nil
		}
	})
	var got struct {
		Quotas []quotas.Status `json:"quotas"`
	}
	list := func() quotas.Status {
		t.Helper()
		r.do(http.StatusOK, viewerToken, "GET", "/v1/limits/quotas", "").into(t, &got)
		if len(got.Quotas) != 1 {
			t.Fatalf("%+v", got)
		}
		return got.Quotas[0]
	}
	if q := list(); q.Quota != "quota/eu%20west" || q.Limit != "{rate: 600000/1m}" || q.Source != limits.FromConfiguration || q.Free != 6000 || q.AtOnce != 6000 {
		t.Errorf("%+v", q)
	}
	for _, path := range []string{"/v1/limits/quotas/eu%20west", "/v1/limits/quotas/quota%2Feu%2520west"} {
		var set operate.Setting
		r.do(http.StatusOK, operatorToken, "PUT", path, `{"rates":["300000/1m"],"until":"2126-01-01T00:00:00Z"}`).into(t, &set)
		if o := set.Override; o.Quota != "quota/eu%20west" || o.By != "ada" || o.At.IsZero() || len(set.Warnings) != 0 {
			t.Errorf("%+v", set)
		}
		if q := list(); q.Limit != "{rate: 300000/1m}" || q.Source != limits.FromQuota || q.Until.IsZero() || q.By != "ada" || q.AtOnce != 3000 {
			t.Errorf("%+v", q)
		}
		r.do(http.StatusForbidden, viewerToken, "DELETE", path, "")
		r.do(http.StatusNoContent, operatorToken, "DELETE", path, "")
		r.do(http.StatusNotFound, operatorToken, "DELETE", path, "")
	}
	for _, c := range []struct{ path, body, want string }{
		{"west", `{"rates":["1/1m"]}`, "The quota is none of the configuration's"},
		{"eu%20wset", `{"rates":["1/1m"]}`, "did you mean"},
		{"eu%20west", `{}`, "The body is not valid."},
		{"eu%20west", `{"rates":["1/1m","2/1h"]}`, "The body is not valid."},
		{"eu%20west", `{"rates":["0/1m"]}`, "The body is not valid."},
		{"eu%20west", `{"min_gap":"1s","rates":["1/1m"]}`, "The body is not valid."},
		{"eu%20west", `{"exempt":true}`, "The body is not valid."},
	} {
		if p := r.do(http.StatusBadRequest, operatorToken, "PUT", "/v1/limits/quotas/"+c.path, c.body).problem(t); !strings.Contains(p.Detail, c.want) {
			t.Errorf("%s: %+v", c.body, p)
		}
	}
	// one that has left the configuration
	if err := r.options.Overrides.Set(t.Context(), limits.Override{Level: limits.Level{Quota: "apns/gone"}, Policy: throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: time.Hour}}}, By: "ada"}); err != nil {
		t.Fatal(err)
	}
	r.do(http.StatusNoContent, operatorToken, "DELETE", "/v1/limits/quotas/apns%2Fgone", "")
	var log struct {
		Changes []limits.Change `json:"changes"`
	}
	r.do(http.StatusOK, viewerToken, "GET", "/v1/limits/log?limit=1", "").into(t, &log)
	if c := log.Changes[0]; c.Quota != "apns/gone" || c.Why != "unset" || c.Version != 6 {
		t.Errorf("%+v", c)
	}
}
