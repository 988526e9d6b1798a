//go:build unix

package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/providers/apns/apnstest"
	"github.com/pushpace/pushpace/providers/fcm/fcmtest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// check --providers says of each provider that it is reached, or at which step not
// and why, and sends nothing.
func TestCheckProviders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// change sets up what is wrong, and answers settings of the environment.
		change func(t *testing.T, s *standIns) []string
		failed map[string]string // the step, by platform
		says   string
	}{
		"right": {func(*testing.T, *standIns) []string { return nil }, nil, ""},
		"unknown host": {func(*testing.T, *standIns) []string {
			return []string{"PUSHPACE_APPS__SHOP__APNS__ENDPOINT=https://nowhere.invalid", "PUSHPACE_APPS__SHOP__FCM__ENDPOINT=https://nowhere.invalid", "PUSHPACE_APPS__SHOP__WEBPUSH__ENDPOINT=https://nowhere.invalid"}
		}, map[string]string{"apns": "dns", "fcm": "dns", "webpush": "dns"}, "nowhere.invalid"},
		"nobody there": {func(*testing.T, *standIns) []string {
			return []string{"PUSHPACE_APPS__SHOP__APNS__ENDPOINT=https://127.0.0.1:1", "PUSHPACE_APPS__SHOP__FCM__ENDPOINT=https://127.0.0.1:1", "PUSHPACE_APPS__SHOP__WEBPUSH__ENDPOINT=https://127.0.0.1:1"}
		}, map[string]string{"apns": "connect", "fcm": "connect", "webpush": "connect"}, "connection refused"},
		"another's certificate authority": {func(t *testing.T, _ *standIns) []string {
			other, err := apnstest.NewServer(apnstest.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = other.Close() })
			file := filepath.Join(t.TempDir(), "other.pem")
			if err := os.WriteFile(file, other.CA(), 0o600); err != nil {
				t.Fatal(err)
			}
			return []string{"PUSHPACE_APPS__SHOP__APNS__ROOT_CA_FILE=" + file, "PUSHPACE_APPS__SHOP__FCM__ROOT_CA_FILE=" + file, "PUSHPACE_APPS__SHOP__WEBPUSH__ROOT_CA_FILE=" + file}
		}, map[string]string{"apns": "tls", "fcm": "token", "webpush": "tls"}, "signed by an unknown authority"},
		"token server refuses": {func(_ *testing.T, s *standIns) []string {
			s.servers[push.FCM].(*fcmtest.Server).TokenScript.RespondAlways(standin.Answer{Status: http.StatusBadRequest, Reason: "invalid_grant"})
			return nil
		}, map[string]string{"fcm": "token"}, "400 invalid_grant"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s, err := startStandIns(dir, func(*platform) standInOptions { return standInOptions{} })
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.close() })
			text := "redis: {address: embedded}\napps: {shop: {apns: {topic: " + s.app.APNs.Topic + "}}, trial: {simulated: true}}\n"
			if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			site := setup{dir: dir, env: append(strings.Fields(variables("shop", s.app)), c.change(t, s)...)}
			want := exitDone
			if c.failed != nil {
				want = exitFailed
			}
			got := ended(t, site, "check", "--providers", "--json")
			var e effective
			if err := json.Unmarshal([]byte(got.stdout), &e); err != nil || got.status != want || len(e.Providers) != 3 {
				t.Fatalf("%v: %+v", err, got)
			}
			for _, p := range e.Providers {
				failed := c.failed[string(p.Platform)]
				if p.App != "shop" || p.Failed != failed || p.OK != (failed == "") || p.OK != (p.Error == "") || failed != "" && !strings.Contains(p.Error, c.says) {
					t.Errorf("%+v", p)
				}
				passed := "token connect tls answer"
				if p.Platform == push.PlatformWebPush { // whose token is made here
					passed = "connect tls answer"
				}
				if p.OK && strings.Join(p.Passed, " ") != passed {
					t.Errorf("%+v", p)
				}
			}
			got = ended(t, site, "check", "--providers")
			if got.status != want || !strings.Contains(got.stdout, "\nshop apns  ") || !strings.Contains(got.stdout, "\nshop fcm  ") || !strings.Contains(got.stdout, "\nshop webpush  ") || !strings.Contains(got.stdout, c.says) {
				t.Errorf("%+v", got)
			}
			for platform, server := range s.servers {
				if all := server.Ledger().Len(); all > 0 {
					t.Errorf("%d notifications were sent to %s", all, platform)
				}
			}
		})
	}
}

// Where hosts names none to connect to, check says so, and not that it connects.
func TestCheckProvidersWithNoHostToReach(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if got := ended(t, setup{dir: dir}, "vapid", "new", filepath.Join(dir, "vapid.pem")); got.status != exitDone {
		t.Fatalf("%+v", got)
	}
	text := `redis: {address: embedded}
apps: {shop: {webpush: {subject: "mailto:push@example.com", private_key_file: vapid.pem, hosts: ["*"]}}}
`
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got := ended(t, setup{dir: dir}, "check", "--providers")
	if got.status != exitDone || !strings.Contains(got.stdout, "\nshop webpush  not checked: ") {
		t.Errorf("%+v", got)
	}
}
