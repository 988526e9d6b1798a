package api

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

func (r *rig) pauses() []pause.Pause {
	r.t.Helper()
	var list struct {
		Pauses []pause.Pause `json:"pauses"`
	}
	r.do(http.StatusOK, viewerToken, "GET", "/v1/pauses", "").into(r.t, &list)
	return list.Pauses
}

func TestPauses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if got := r.pauses(); got == nil || len(got) != 0 {
		t.Errorf("%+v", got)
	}
	const path = "/v1/pauses?app=demo&platform=apns&category=a%2Fb%20c"
	r.do(http.StatusNoContent, operatorToken, "PUT", path, `{"until":"2126-01-01T00:00:00Z","reason":"a new certificate"}`)
	r.do(http.StatusNoContent, operatorToken, "PUT", "/v1/pauses?all=true", `{}`)
	got := r.pauses()
	if len(got) != 2 || got[0].By != "ada" || got[0].App != "" || got[0].At.IsZero() || !got[0].Until.IsZero() {
		t.Fatalf("%+v", got)
	}
	if p := got[1]; p.Kind != pause.Operator || p.App != "demo" || p.Platform != push.APNs || p.Category != "a/b c" || p.Reason != "a new certificate" ||
		!p.Until.Equal(time.Date(2126, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v", p)
	}
	r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", notification("held", "ada"))
	var status control.Status
	r.do(http.StatusOK, viewerToken, "GET", "/v1/notifications/held", "").into(t, &status)
	if len(status.Paused) != 1 || status.Paused[0].By != "ada" {
		t.Errorf("%+v", status)
	}
	for _, token := range []string{producerToken, viewerToken} {
		r.do(http.StatusForbidden, token, "PUT", path, `{}`)
		r.do(http.StatusForbidden, token, "DELETE", path, "")
	}
	r.do(http.StatusForbidden, producerToken, "GET", "/v1/pauses", "")
	var ended struct{ Ended []pause.Pause }
	r.do(http.StatusOK, operatorToken, "DELETE", path, "").into(t, &ended)
	if len(ended.Ended) != 1 || ended.Ended[0] != got[1] {
		t.Errorf("%+v", ended)
	}
	r.do(http.StatusNotFound, operatorToken, "DELETE", path, "")
	r.do(http.StatusOK, operatorToken, "DELETE", "/v1/pauses?all=true", "")
	if got := r.pauses(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestBadPauses(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *rigOptions) { o.Apps = operate.Apps{"demo": both, "shop": both} })
	for _, c := range []struct{ query, body, pointer string }{
		{"", `{}`, ""},
		{"?app=", `{}`, ""},
		{"?all=yes", `{}`, ""},
		{"?app=" + canary, `{}`, ""},
		{"?all=true&app=demo", `{}`, ""},
		{"?platform=" + canary, `{}`, ""},
		{"?app=%00" + canary, `{}`, ""},
		{"?category=" + strings.Repeat("x", 129), `{}`, ""},
		{"?" + canary + "=demo&platform=apns", `{}`, ""},
		{"?platform=apns&app=%zz" + canary, `{}`, ""},
		{"?platform=apns&app=demo;x=" + canary, `{}`, ""},
		{"?app=demo&app=" + canary, `{}`, ""},
		{"?category=a&category=b", `{}`, ""},
		{"?app=demo", `{"until":"2020-01-01T00:00:00Z"}`, "/until"},
		{"?app=demo", `{"until":"0001-01-01T00:00:00Z"}`, "/until"},
		{"?app=demo", `{"until":"9999-12-31T23:59:59-23:59"}`, "/until"},
		{"?app=demo", `{"until":"soon"}`, "/until"},
		{"?app=demo", `{"reason":"` + strings.Repeat("x", 513) + `"}`, "/reason"},
		{"?app=demo", `{"reason":"a\u0000"}`, "/reason"},
		{"?app=demo", `{"for":"1h"}`, "/for"},
	} {
		p := r.do(http.StatusBadRequest, operatorToken, "PUT", "/v1/pauses"+c.query, c.body).problem(t)
		if c.pointer == "" && (len(p.Errors) != 0 || p.Detail == "") || c.pointer != "" && (len(p.Errors) != 1 || p.Errors[0].Pointer != c.pointer) {
			t.Errorf("%s %s: %+v", c.query, c.body, p)
		}
		r.oneLine(http.StatusBadRequest, "/v1/pauses", "ada")
	}
	for _, query := range []string{"", "?all=no", "?platform=pigeon", "?app=demo&all=true", "?ap=demo&platform=apns", "?app=demo&platform=%zz", "?app=demo&app=shop"} {
		r.do(http.StatusBadRequest, operatorToken, "DELETE", "/v1/pauses"+query, "")
	}
	if got := r.pauses(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}
