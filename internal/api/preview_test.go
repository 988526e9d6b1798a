package api

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/quotas"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// A preview tells what an override would do, and neither it nor a bad one changes
// anything.
func TestPreviewOfLimits(t *testing.T) {
	t.Parallel()
	const kioskViewer = "kiosk-viewer"
	r := newRig(t, func(o *rigOptions) {
		o.Apps = operate.Apps{"shop": both, "kiosk": both}
		o.Quotas = func() (quotas.Quotas, error) {
			return quotas.Quotas{{Key: "quota/eu", Name: "eu", Apps: []string{"shop", "kiosk"}, Quota: config.Quota{Rate: throttle.Rate{Count: 600, Period: time.Minute}}}}, nil
		}
		o.HTTP.Tokens = append(o.HTTP.Tokens, config.Token{Name: kioskViewer, Role: config.Viewer, Apps: []string{"kiosk"}, SHA256: config.Hash(sha256.Sum256([]byte(kioskViewer)))})
	})
	r.options.Limits.SetBase(throttle.Policy{MinGap: time.Hour}, map[string]throttle.Policy{"security": {Exempt: true}})
	limiter := r.options.Preview.Lines.(*throttle.Redis)
	for i := range 4 {
		if _, err := limiter.Acquire(t.Context(), throttle.Request{App: "shop", User: "ada", ID: fmt.Sprint("n", i), Scopes: r.options.Limits.Scopes("shop", "ada", ""), Horizon: 24 * time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(body string) (told operate.Preview) {
		t.Helper()
		r.do(http.StatusOK, viewerToken, "POST", "/v1/limits/preview", body).into(t, &told)
		return told
	}
	if p := ask(`{"app":"shop","user":"ada","min_gap":"1m","until":"2126-01-01T00:00:00Z"}`); len(p.Moves) != 3 || p.Sooner != 3 || p.Later != 0 || p.AtOnce != 0 ||
		p.Moves[2].ID != "n3" || p.Moves[2].Before.Sub(p.Moves[2].After).Round(time.Minute) != 3*59*time.Minute || !p.LastAfter.Equal(p.Moves[2].After) || p.After.Until.IsZero() || p.Before.Source != limits.FromConfiguration {
		t.Errorf("%+v", p)
	}
	if p := ask(`{"user":"ada","rates":["1/2h"]}`); p.Sooner != 0 || p.Later != 3 {
		t.Errorf("%+v", p)
	}
	for _, body := range []string{`{"app":"shop","min_gap":"1s"}`, `{"min_gap":"1s"}`} {
		if p := ask(body); p.Sooner != 3 || p.AtOnce == 0 || p.Users != (operate.Looked{At: 1, Of: 1}) || p.MostAfter != 1 || len(p.Moves) != 0 {
			t.Errorf("%s: %+v", body, p)
		}
	}
	if p := ask(`{"category":"security","min_gap":"1s"}`); p.Users.Of != 0 || len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "was exempt") {
		t.Errorf("%+v", p)
	}
	if p := ask(`{"quota":"eu","rates":["300/1m"]}`); p.Quota != "quota/eu" || p.Users.Of != 0 || p.After.Source != limits.FromQuota {
		t.Errorf("%+v", p)
	}
	r.do(http.StatusNotFound, viewerToken, "POST", "/v1/limits/preview", `{"user":"ada","remove":true}`)
	r.do(http.StatusForbidden, producerToken, "POST", "/v1/limits/preview", `{"user":"ada","min_gap":"1s"}`)
	for _, body := range []string{`{"app":"shop","user":"ada","min_gap":"1s"}`, `{"user":"ada","min_gap":"1s"}`, `{"min_gap":"1s"}`, `{"quota":"eu","rates":["1/1m"]}`} {
		r.do(http.StatusForbidden, kioskViewer, "POST", "/v1/limits/preview", body)
	}
	r.do(http.StatusOK, kioskViewer, "POST", "/v1/limits/preview", `{"app":"kiosk","min_gap":"1s"}`)
	if log, err := r.options.Overrides.Log(t.Context(), 0, 1); err != nil || len(log) > 0 {
		t.Errorf("it has left %v, %v", log, err)
	}
	if err := r.options.Overrides.Set(t.Context(), limits.Override{Level: limits.Level{User: "ada"}, Policy: throttle.Policy{MinGap: 3 * time.Hour}, By: "ada"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.options.Overrides.Refresh(t.Context(), r.options.Limits); err != nil {
		t.Fatal(err)
	}
	if p := ask(`{"user":"ada","remove":true}`); p.Before.Source != limits.FromUser || p.After.Source != limits.FromConfiguration || p.Sooner+p.Later != 0 {
		t.Errorf("%+v", p)
	}
	for body, want := range map[string][]string{
		`{"user":"ada"}`:  {"/min_gap"},
		`{"exempt":true}`: {"/exempt"},
		`{"user":"a\u0000","app":"\u0000","min_gap":"1s"}`:             {"/app", "/user"},
		`{"user":"ada","quota":"eu","rates":["1/1m"]}`:                 {"/quota"},
		`{"user":"ada","remove":true,"min_gap":"1s"}`:                  {"/remove"},
		`{"user":"ada","min_gap":"1s","until":"2020-01-01T00:00:00Z"}`: {"/until"},
		`{"user":"ada","min_gap":"48h","rates":["x"]}`:                 {"/rates/0"},
		`{"usr":"ada","min_gap":"1s"}`:                                 {"/usr"},
		`{"quota":"eu","min_gap":"1s","rates":["1/1m"]}`:               {"/rates"},
	} {
		var pointers []string
		for _, f := range r.do(http.StatusBadRequest, viewerToken, "POST", "/v1/limits/preview", body).problem(t).Errors {
			pointers = append(pointers, f.Pointer)
		}
		if !slices.Equal(pointers, want) {
			t.Errorf("%s: %q, want %q", body, pointers, want)
		}
	}
	for _, body := range []string{`{"app":"shpo","min_gap":"1s"}`, `{"quota":"none","rates":["1/1m"]}`} {
		r.do(http.StatusBadRequest, viewerToken, "POST", "/v1/limits/preview", body)
	}
}
