package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/providers/fcm/fcmtest"
)

// Apps of one Firebase project need the same quota, whether project_id or the credentials name it.
func TestAppsOfAProjectNeedTheSameQuota(t *testing.T) {
	t.Parallel()
	server, err := fcmtest.NewServer(fcmtest.Options{})
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	credentials, err := server.WriteCredentials(t.TempDir())
	must(t, err)
	for name, c := range map[string]struct{ shop, web, want string }{
		"the same":            {"quota: {rate: 10/1s}", "quota: {rate: 10/1s}", ""},
		"another":             {"quota: {rate: 10/1s}", "quota: {rate: 11/1s}", "apps.web.fcm.quota"},
		"none":                {"concurrency: 3", "quota: {rate: 11/1s}", "apps.web.fcm.quota"},
		"another by its name": {"quota: {rate: 10/1s}", "project_id: " + server.Project() + ", quota: {rate: 11/1s}", "apps.web.fcm.quota"},
		"another project":     {"quota: {rate: 10/1s}", "project_id: other, quota: {rate: 11/1s}", ""},
	} {
		text := fmt.Sprintf("redis: {address: embedded}\napps:\n  shop: {fcm: {credentials_file: %[1]s, %[2]s}}\n  web: {fcm: {credentials_file: %[1]s, %[3]s}}\n",
			credentials.CredentialsFile, c.shop, c.web)
		_, err := Parse("c.yaml", []byte(text), nil)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), ": "+c.want+": is not that of apps.shop.fcm.quota")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A quota that no app names causes a warning with the quota's place, and the warning's advice can
// be followed.
func TestUnnamedQuotaCausesWarning(t *testing.T) {
	t.Parallel()
	const apns = "apns: {topic: com.example.shop, key_file: testdata/secret, key_id: ABCDEFGHIJ, team_id: ABCDEFGHIJ"
	const fcm = "fcm: {credentials_file: testdata/secret, project_id: p"
	const none = "no app names it, and none of its apps has a provider that could"
	for name, c := range map[string]struct{ apps, quota, want string }{
		"two providers":           {"{shop: {" + fcm + "}, " + apns + "}}}", "apps: [shop]", "no app names it; write apps.shop.apns.quota: europe"},
		"one has its own":         {"{shop: {" + fcm + "}, " + apns + ", quota: {rate: 10/1s}}}}", "apps: [shop]", "no app names it; write apps.shop.fcm.quota: europe"},
		"simulated":               {"{shop: {simulated: true}}", "apps: [shop]", none},
		"the first simulated":     {"{shop: {simulated: true}, kiosk: {" + apns + "}}}", "apps: [shop, kiosk]", "no app names it; write apps.kiosk.apns.quota: europe"},
		"a ramp":                  {"{shop: {" + apns + "}, " + fcm + "}}}", "ramp: 1m, apps: [shop]", "no app names it; write apps.shop.fcm.quota: europe"},
		"a ramp for APNs alone":   {"{shop: {" + apns + "}}}", "ramp: 1m, apps: [shop]", none},
		"a project of two apps":   {"{shop: {" + fcm + "}}, web: {" + fcm + "}}}", "apps: [web, shop]", "no app names it; write apps.shop.fcm.quota: europe and apps.web.fcm.quota: europe"},
		"a project with a second": {"{shop: {" + fcm + "}}, web: {" + fcm + "}}}", "apps: [shop]", none},
		"named":                   {"{shop: {" + fcm + ", quota: europe}}}", "apps: [shop]", ""},
	} {
		text := "redis: {address: embedded}\nlimits:\n  quotas:\n    europe: {rate: 10/1s, " + c.quota + "}\napps: " + c.apps + "\n"
		cfg, err := Parse("c.yaml", []byte(text), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var want []string
		if c.want != "" {
			want = []string{"c.yaml:4:5: limits.quotas.europe: bounds nothing: " + c.want}
		}
		if !slices.Equal(cfg.Warnings(), want) {
			t.Errorf("%s: %q", name, cfg.Warnings())
		}
		_, advice, found := strings.Cut(c.want, "write ")
		if !found {
			continue
		}
		var environ []string
		for key := range strings.SplitSeq(advice, " and ") {
			environ = append(environ, variableOf(strings.TrimSuffix(key, ": europe"))+"=europe")
		}
		text = strings.Replace(text, ", quota: {rate: 10/1s}", "", 1)
		if cfg, err = Parse("c.yaml", []byte(text), environ); err != nil || cfg.Warnings() != nil {
			t.Errorf("%s: followed: %v, %q", name, err, cfg.Warnings())
		}
	}
}

// Warnings are in the order of the file. A warning that has moved is no change.
func TestMovedWarningIsNoChange(t *testing.T) {
	t.Parallel()
	const text = "redis: {address: embedded}\nlimits:\n  categories:\n    a: {rates: [10/1h, 5/24h]}\n  default: {rates: [10/1h, 5/24h]}\napps: {demo: {simulated: true}}\n"
	old, err1 := Parse("c.yaml", []byte(text), nil)
	new, err2 := Parse("c.yaml", []byte("# moved\n"+text), nil)
	must(t, errors.Join(err1, err2))
	got := old.Warnings()
	if len(got) != 2 || !strings.HasPrefix(got[0], "c.yaml:4:5: limits.categories.a: ") || !strings.HasPrefix(got[1], "c.yaml:5:3: limits.default: ") {
		t.Errorf("%q", got)
	}
	if changes := Changes(old, new); len(changes) > 0 {
		t.Errorf("%v", changes)
	}
}
