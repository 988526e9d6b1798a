package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/providers/fcm/fcmtest"
)

// A quota is the Firebase project's, be it named by project_id or by the credentials.
func TestQuotaOfAProject(t *testing.T) {
	t.Parallel()
	server, err := fcmtest.NewServer(fcmtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	credentials, err := server.WriteCredentials(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ shop, web, want string }{
		"the same":            {"quota: {rate: 10/1s}", "quota: {rate: 10/1s}", ""},
		"another":             {"quota: {rate: 10/1s}", "quota: {rate: 11/1s}", "apps.web.fcm.quota"},
		"none":                {"concurrency: 3", "quota: {rate: 11/1s}", "apps.web.fcm.quota"},
		"another of its name": {"quota: {rate: 10/1s}", "project_id: " + server.Project() + ", quota: {rate: 11/1s}", "apps.web.fcm.quota"},
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
