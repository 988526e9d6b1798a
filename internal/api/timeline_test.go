package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/quiet"
	"github.com/pushpace/pushpace/worker/control"
)

func TestTimeline(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *rigOptions) { o.Apps = operate.Apps{"demo": both, "shop": both} })
	limiter, err := throttle.New(r.client, throttle.Options{Timeout: redistest.Patience})
	must(t, err)
	t.Cleanup(func() { _ = limiter.Close() })
	scopes := []throttle.Scope{{Name: throttle.General, Policy: throttle.Policy{MinGap: time.Second}}}
	for _, id := range []string{"one", "two", "three"} {
		if _, err := limiter.Acquire(t.Context(), throttle.Request{App: "demo", User: "ö/d a", ID: id, Scopes: scopes, Horizon: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	const path = "/v1/users/%C3%B6%2Fd%20a/timeline"
	for { // an admission may be stamped a little ahead of Redis's clock
		var got control.Timeline
		r.do(http.StatusOK, viewerToken, "GET", path+"?app=demo", "").into(t, &got)
		if len(got.Bookings) < 3 {
			break
		}
	}
	for _, query := range []string{"?app=demo", "?app=demo&category=security", "?app=demo&category=marketing&category=security"} {
		var got control.Timeline
		r.do(http.StatusOK, viewerToken, "GET", path+query, "").into(t, &got)
		if got.App != "demo" || got.User != "ö/d a" || len(got.Scopes) != max(2, 1+strings.Count(query, "category")) ||
			got.Scopes[0].Limits[0].Used != 1 || !got.Scopes[len(got.Scopes)-1].Exempt ||
			len(got.Bookings) != 2 || got.Bookings[0].ID != "two" || got.Bookings[0].Rule != "gap" {
			t.Errorf("%s: %+v", query, got)
		}
	}
	if p := r.do(http.StatusBadRequest, viewerToken, "GET", path, "").problem(t); p.Detail != "The app is missing." || !slices.Equal(p.Apps, []string{"demo", "shop"}) {
		t.Errorf("%+v", p)
	}
	for _, query := range []string{"?app=", "?app=none", "?app=demo" + strings.Repeat("&category=c", 101)} {
		r.do(http.StatusBadRequest, viewerToken, "GET", path+query, "").problem(t)
	}
	for _, user := range []string{"%00", "%FF", strings.Repeat("x", 129)} {
		r.do(http.StatusBadRequest, viewerToken, "GET", "/v1/users/"+user+"/timeline?app=demo", "").problem(t)
	}
	r.do(http.StatusForbidden, producerToken, "GET", path+"?app=demo", "")

	general := throttle.Policy{MinGap: time.Second, Night: quiet.Night{Zone: time.UTC}}
	if general.Quiet, err = quiet.ParseHours([]string{"00:00-23:00"}); err != nil {
		t.Fatal(err)
	}
	_, categories := r.options.Limits.Base()
	r.options.Limits.SetBase(general, categories)
	must(t, r.options.Overrides.Set(t.Context(), limits.Override{Level: limits.Level{User: "ö/d a", Mute: true}, By: "ada"}))
	_, err = r.options.Overrides.Refresh(t.Context(), r.options.Limits)
	must(t, err)
	var got control.Timeline
	r.do(http.StatusOK, viewerToken, "GET", path+"?app=demo", "").into(t, &got)
	if s := got.Scopes[0]; !s.Muted || s.Quiet == nil || s.Quiet.Hours.String() != "00:00-23:00" || s.Quiet.Zone != "UTC" || len(s.Quiet.Closed) < 7 || s.Quiet.Closed[0].Until.Hour() != 23 {
		t.Errorf("%+v", s)
	}
	r = newRigOn(t, r.client, func(o *rigOptions) { o.Apps = operate.Apps{"demo": both} })
	r.do(http.StatusOK, operatorToken, "GET", path, "")
}
