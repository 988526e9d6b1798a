package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"
)

const shipped = "../../config.yaml"

// TestShippedFile loads the repository's config.yaml: embedded, simulated, and
// everything else at its default.
func TestShippedFile(t *testing.T) {
	t.Parallel()
	got, err := Load(shipped, nil)
	must(t, err)
	var want Config
	want.SetDefaults()
	want.Redis.Address = Address{Mode: Embedded}
	want.Apps = map[string]App{"demo": {Simulated: true}}
	want.Limits.Default, want.Limits.Categories = got.Limits.Default, got.Limits.Categories
	if !reflect.DeepEqual(got, &want) {
		t.Errorf("got\n%#v\nwant\n%#v", got, &want)
	}
	if got.Limits.Default.Unlimited() || !got.Limits.Categories["security"].Exempt {
		t.Errorf("limits: %+v", got.Limits)
	}
}

// TestShippedFileUncommented loads the file with its commented-out lines.
func TestShippedFileUncommented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(shipped)
	must(t, err)
	text = regexp.MustCompile(`(?m)^(  +)# ( *[a-z_]+:)`).ReplaceAll(text, []byte("$1$2"))
	text = regexp.MustCompile(`(?m)^(  +)# ( *- \{name:)`).ReplaceAll(text, []byte("$1$2"))
	text = regexp.MustCompile(`address: embedded`).ReplaceAll(text, []byte(`address: {master: main, sentinels: ["localhost:26379"]}`))
	text = regexp.MustCompile(`/run/secrets/`).ReplaceAll(text, nil)
	dir := t.TempDir()
	for _, name := range []string{
		"redis", "sentinel", "redis-ca.pem", "redis.crt", "redis.key", "AuthKey_ABCDEFGHIJ.p8", "proxy-ca.pem",
		"shop-service-account.json", "vapid.pem", "webhook", "kiosk.p12", "kiosk",
		"api.crt", "api.key",
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), 0o600))
	}
	c, err := Parse(filepath.Join(dir, "config.yaml"), text, nil)
	if err != nil {
		t.Fatalf("%v\nin\n%s", err, text)
	}
	shop, kiosk := c.Apps["shop"], c.Apps["kiosk"]
	if c.Limits.Redis == nil || shop.APNs == nil || shop.FCM == nil || shop.WebPush == nil || shop.DeadTokens.Webhook == nil || kiosk.APNs == nil ||
		!c.Redis.TLS.Enabled || !c.Redis.Strict || c.Redis.Password != "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" || c.Redis.SentinelPassword == "" || c.Telemetry.Listen == "" || c.Telemetry.Tracing.Endpoint == "" ||
		c.HTTP.Listen == "" || c.HTTP.Console.Origin == "" || !c.HTTP.TLS.Enabled() || len(c.HTTP.Tokens) != 3 || len(c.HTTP.Tokens[2].Apps) != 1 {
		t.Errorf("something stayed commented out: %v", c)
	}
}
