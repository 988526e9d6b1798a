package names

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	apps := Apps{"shop": {push.APNs, push.FCM}, "kiosk": {push.APNs}}
	apns, fcm := push.Target{Platform: push.APNs, Token: "ab"}, push.Target{Platform: push.FCM, Token: "t"}
	for name, c := range map[string]struct {
		app, category string
		policy        throttle.UnknownCategory
		want          []string
	}{
		"all known":                {"shop", "orders", throttle.RefuseUnknown, nil},
		"no category":              {"shop", "", throttle.RefuseUnknown, nil},
		"mistyped app":             {"shpo", "orders", throttle.WarnUnknown, []string{"/app is not one of the configuration's apps: kiosk, shop; did you mean shop?"}},
		"another app":              {"mail", "orders", throttle.WarnUnknown, []string{"/app is not one of the configuration's apps: kiosk, shop"}},
		"no app, which is a fault": {"", "orders", throttle.WarnUnknown, nil},
		"an app without FCM":       {"kiosk", "orders", throttle.WarnUnknown, []string{"/targets/1/platform is not one that the configuration gives the app"}},
		"a category, warned of":    {"shop", "odrers", throttle.WarnUnknown, nil},
		"a category, refused":      {"shop", "odrers", throttle.RefuseUnknown, []string{"/category is not one of the configuration's; did you mean orders?"}},
		"both":                     {"x", "Orders", throttle.RefuseUnknown, []string{"/app is not one of the configuration's apps: kiosk, shop", "/category is not one of the configuration's; did you mean orders?"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limits := throttle.NewLimits(throttle.Policy{}, map[string]throttle.Policy{"orders": {}})
			limits.SetUnknown(c.policy)
			n := &push.Notification{App: c.app, User: "u", Category: c.category, Targets: []push.Target{apns, fcm}, Title: "t"}
			var got []string
			for _, f := range Check(n, apps, limits) {
				got = append(got, f.Field+" "+f.Problem)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if err := Faults(n, apps, limits); (err == nil) != (c.want == nil) {
				t.Errorf("%v", err)
			}
		})
	}
}

// What else is wrong is told in the same answer; without apps, any is taken.
func TestFaults(t *testing.T) {
	t.Parallel()
	limits := throttle.NewLimits(throttle.Policy{}, nil)
	n := &push.Notification{App: "shpo", Targets: []push.Target{{Platform: push.FCM, Token: "t"}}, Title: "t"}
	f, ok := Faults(n, Apps{"shop": {push.FCM}}, limits).(push.Faults)
	if !ok || len(f) != 2 || f[0].Field != "/app" || f[1].Field != "/user" {
		t.Errorf("%v", f)
	}
	if err := Faults(n, nil, limits); err != nil {
		t.Error(err)
	}
}

func TestFaultNamesTenApps(t *testing.T) {
	t.Parallel()
	apps := Apps{}
	for i := range 12 {
		apps[fmt.Sprintf("app-%02d", i)] = nil
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
		o       throttle.Override
		inForce throttle.Policy
		want    string
	}{
		"a user's":                 {throttle.Override{User: "ada", Policy: rate}, throttle.Policy{}, ""},
		"known":                    {throttle.Override{Category: "marketing", Policy: rate}, rate, ""},
		"mistyped":                 {throttle.Override{Category: "markting", Policy: rate}, throttle.Policy{}, `the configuration has no category "markting"; did you mean marketing?`},
		"ends an exemption":        {throttle.Override{Category: "security", Policy: rate}, exempt, `category "security" was exempt: from now on its notifications wait for limits, the general ones too`},
		"ends a user's exemption":  {throttle.Override{User: "ada", Category: "security", Policy: rate}, exempt, `category "security" was exempt: from now on its notifications wait for limits, the general ones too`},
		"is exempt as it was":      {throttle.Override{Category: "security", Policy: exempt}, exempt, ""},
		"beside what is exempt":    {throttle.Override{User: "ada", Policy: rate}, exempt, ""},
		"begins an exemption":      {throttle.Override{Category: "marketing", Policy: exempt}, rate, ""},
		"limits what has no limit": {throttle.Override{Category: "marketing", Policy: rate}, throttle.Policy{}, ""},
	} {
		if got := strings.Join(OverrideWarnings(c.o, c.inForce, known), "; "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
