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
	if err != nil {
		t.Fatal(err)
	}
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

// TestShippedFileUncommented loads it with what is commented out.
func TestShippedFileUncommented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(shipped)
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`(?m)^(  +)# ( *[a-z_]+:)`).ReplaceAll(text, []byte("$1$2"))
	text = regexp.MustCompile(`address: embedded`).ReplaceAll(text, []byte(`address: "localhost:6379"`))
	text = regexp.MustCompile(`/run/secrets/`).ReplaceAll(text, nil)
	dir := t.TempDir()
	for _, name := range []string{"redis", "redis-ca.pem", "AuthKey_ABCDEFGHIJ.p8", "shop-service-account.json", "webhook"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("0123456789abcdef"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Parse(filepath.Join(dir, "config.yaml"), text, nil)
	if err != nil {
		t.Fatalf("%v\nin\n%s", err, text)
	}
	if c.Limits.Redis == nil || c.Apps["shop"].APNs == nil || c.Apps["shop"].FCM == nil || !c.Redis.TLS.Enabled || !c.Redis.Strict || c.Redis.Password != "0123456789abcdef" || c.Apps["shop"].DeadTokens.Webhook == nil {
		t.Errorf("something stayed commented out: %v", c)
	}
}
