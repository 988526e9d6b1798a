package operate

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

func TestUnknownNames(t *testing.T) {
	t.Parallel()
	apps := Apps{"shop": {Platforms: []push.Platform{push.APNs, push.FCM}}, "kiosk": {Platforms: []push.Platform{push.APNs}}}
	apns, fcm := push.Target{Platform: push.APNs, Token: "ab"}, push.Target{Platform: push.FCM, Token: "t"}
	for name, c := range map[string]struct {
		app, category string
		policy        limits.UnknownCategory
		want          []string
		warnings      string
	}{
		"all known":                {"shop", "orders", limits.RefuseUnknown, nil, ""},
		"mistyped app":             {"shpo", "orders", limits.WarnUnknown, []string{"/app is not one of the configuration's apps: kiosk, shop; did you mean shop?"}, ""},
		"no app, which is a fault": {"", "orders", limits.WarnUnknown, nil, ""},
		"an app without FCM":       {"kiosk", "orders", limits.WarnUnknown, []string{"/targets/1/platform is not a platform of the app in the configuration"}, ""},
		"a category, warned of":    {"shop", "odrers", limits.WarnUnknown, nil, "category odrers is not configured; did you mean orders?"},
		"a category, refused":      {"shop", "odrers", limits.RefuseUnknown, []string{"/category is not configured; did you mean orders?"}, ""},
		"a category, allowed":      {"shop", "odrers", limits.AllowUnknown, nil, ""},
		"both":                     {"x", "Orders", limits.RefuseUnknown, []string{"/app is not one of the configuration's apps: kiosk, shop", "/category is not configured; did you mean orders?"}, ""},
	} {
		policies := limits.New(throttle.Policy{}, map[string]throttle.Policy{"orders": {}})
		policies.SetUnknown(c.policy)
		n := &push.Notification{App: c.app, User: "u", Category: c.category, Targets: []push.Target{apns, fcm}, Title: "t"}
		var got []string
		for _, f := range UnknownNames(n, apps, policies) {
			got = append(got, f.Field+" "+f.Problem)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if got := strings.Join(Warnings(n, policies), "; "); got != c.warnings {
			t.Errorf("%s: warned %q, want %q", name, got, c.warnings)
		}
		if err := Refusal(n, apps, policies); (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An endpoint at a host that the app does not send to is refused, and no other.
func TestUnknownHostIsRefused(t *testing.T) {
	t.Parallel()
	hosts := []string{"fcm.googleapis.com", "*.push.apple.com"}
	apps := Apps{"shop": {Platforms: push.Platforms(), Hosts: hosts}, "open": {Platforms: push.Platforms(), Hosts: []string{push.AnyHost}}}
	for _, c := range []struct {
		app, endpoint string
		want          string
	}{
		{"shop", "https://fcm.googleapis.com/a", ""}, {"shop", "https://FCM.googleapis.com:443/a", ""}, {"shop", "https://web.push.apple.com/a", ""},
		{"shop", "https://up.example.org/secret", "/targets/0/token is at up.example.org, which is not among the hosts of the app's webpush"},
		{"shop", "https://permanently-removed.invalid/a", ""}, // a worker reports that it is gone
		{"shop", "http://up.example.org/a", ""},               // Validate reports it
		{"open", "https://up.example.org/a", ""},
	} {
		n := &push.Notification{App: c.app, User: "u", Title: "t", Targets: []push.Target{{Platform: push.PlatformWebPush, Token: c.endpoint}}}
		got := ""
		for _, f := range UnknownNames(n, apps, limits.New(throttle.Policy{}, nil)) {
			got += f.Field + " " + f.Problem
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.endpoint, got, c.want)
		}
	}
}

func TestFaultNamesTenApps(t *testing.T) {
	t.Parallel()
	apps := Apps{}
	for i := range 12 {
		apps[fmt.Sprintf("app-%02d", i)] = App{}
	}
	if got := apps.Fault("nothing like it"); !strings.HasSuffix(got, "app-09 and 2 more") {
		t.Error(got)
	}
}

func TestOverrideWarnings(t *testing.T) {
	t.Parallel()
	rate := throttle.Policy{Rates: []throttle.Rate{{Count: 3, Period: time.Minute}}}
	exempt := throttle.Policy{Exempt: true}
	known := []string{"marketing", "security"}
	for name, c := range map[string]struct {
		o       limits.Override
		inForce throttle.Policy
		want    string
	}{
		"a user's":                 {limits.Override{Level: limits.Level{User: "ada"}, Policy: rate}, throttle.Policy{}, ""},
		"mistyped":                 {limits.Override{Level: limits.Level{Category: "markting"}, Policy: rate}, throttle.Policy{}, `category markting is not configured; did you mean marketing?`},
		"ends an exemption":        {limits.Override{Level: limits.Level{Category: "security"}, Policy: rate}, exempt, `category "security" was exempt: from now on its notifications wait for limits, the general ones too`},
		"is exempt as it was":      {limits.Override{Level: limits.Level{Category: "security"}, Policy: exempt}, exempt, ""},
		"begins an exemption":      {limits.Override{Level: limits.Level{Category: "marketing"}, Policy: exempt}, rate, ""},
		"limits what has no limit": {limits.Override{Level: limits.Level{Category: "marketing"}, Policy: rate}, throttle.Policy{}, ""},
	} {
		if got := strings.Join(OverrideWarnings(c.o, c.inForce, known), "; "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A Producer with configured apps refuses a notification of any other app, alone and in a batch. The
// error lists the unknown app and all other faults in the texts of the API. Without configured apps a
// Producer accepts any app.
func TestProducerRefusesUnknownNames(t *testing.T) {
	t.Parallel()
	client := redistest.Own(t)
	anyApp := push.NewProducer(client, "", 0)
	p := anyApp.WithApps("shop", "kiosk")
	to := []push.Target{{Platform: push.FCM, Token: "t"}}
	app := App{Platforms: []push.Platform{push.FCM}}
	policies := limits.New(throttle.Policy{}, nil)
	for _, n := range []*push.Notification{
		{App: "shpo", User: "u", Targets: to, Title: "t"},
		{App: "mail", Targets: to, Title: "t"},
	} {
		want := Refusal(n, Apps{"kiosk": app, "shop": app}, policies)
		_, alone := p.Enqueue(t.Context(), n)
		for _, err := range []error{alone, p.EnqueueAll(t.Context(), []*push.Notification{n})[0].Err} {
			if !reflect.DeepEqual(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
	}
	for id, by := range map[string]*push.Producer{"known": p, "any": anyApp} {
		n := &push.Notification{ID: id, App: "shop", User: "u", Targets: to, Title: "t"}
		if id == "any" {
			n.App = "shpo"
		}
		if _, err := by.Enqueue(t.Context(), n); err != nil {
			t.Error(err)
		}
		if r := by.EnqueueAll(t.Context(), []*push.Notification{n})[0]; r.Err != nil || !r.Known {
			t.Errorf("%+v", r)
		}
	}
	var faults push.Faults
	if _, err := p.Enqueue(t.Context(), &push.Notification{User: "u", Targets: to, Title: "t"}); !errors.As(err, &faults) || len(faults) != 1 || faults[0].Problem != "is missing" {
		t.Errorf("%v", err)
	}
	if _, err := anyApp.WithApps().Enqueue(t.Context(), &push.Notification{App: "shop", User: "u", Targets: to, Title: "t"}); !errors.As(err, &faults) || len(faults) != 1 {
		t.Errorf("%v", err)
	}
}
