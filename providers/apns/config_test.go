package apns

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sideshow/apns2"

	"github.com/pushpace/pushpace/internal/base/fielderrors"
)

func TestConfigErrorReportsFaultyKeys(t *testing.T) {
	t.Parallel()
	key := Config{Topic: "com.example.shop", KeyFile: "k.p8", KeyID: "ABCDEFGHIJ", TeamID: "0123456789"}
	cert := Config{Topic: "com.example.shop", CertificateFile: "c.p12", PasswordFile: "p"}
	with := func(c Config, change func(*Config)) Config { change(&c); return c }
	for _, c := range []struct {
		name   string
		config Config
		keys   []string // at fault, in order
	}{
		{"key", key, nil},
		{"certificate", cert, nil},
		{"certificate with its key apart", with(cert, func(c *Config) { c.KeyFile = "k.pem" }), nil},
		{"zero", Config{}, []string{"topic", "key_file"}},
		{"half a key", Config{Topic: "t", KeyID: "short"}, []string{"key_file", "key_id", "team_id"}},
		{"IDs with other characters", with(key, func(c *Config) { c.KeyID, c.TeamID = "ABCDEFGHI ", "ABCDE-GHI1" }), []string{"key_id", "team_id"}},
		{"both", with(key, func(c *Config) { c.CertificateFile = "c.pem" }), []string{"key_id", "team_id"}},
		{"password without certificate", with(key, func(c *Config) { c.PasswordFile = "p" }), []string{"password_file"}},
		{"environment", with(key, func(c *Config) { c.Environment = "staging" }), []string{"environment"}},
		{"plain endpoint", with(key, func(c *Config) { c.Endpoint = "http://localhost:1" }), []string{"endpoint"}},
		{"endpoint", with(key, func(c *Config) { c.Endpoint = "https://localhost:2197/" }), nil},
		{"timeout", with(key, func(c *Config) { c.Timeout = -1 }), []string{"timeout"}},
	} {
		err := c.config.Validate()
		var keys []string
		for _, f := range fielderrors.Of(err) {
			keys = append(keys, f.Field)
		}
		if strings.Join(keys, " ") != strings.Join(c.keys, " ") {
			t.Errorf("%s: faults %v, want %v: %v", c.name, keys, c.keys, err)
		}
	}
}

func TestTopicIsBareBundleID(t *testing.T) {
	t.Parallel()
	const voip = "ends in .voip, which pushpace adds by the push type: want com.example.shop"
	const bundle = "must be the app's bundle ID, such as com.example.shop"
	for topic, want := range map[string]string{
		"com.example.shop": "", "com.example.voipshop": "", "com.example.shop-2_x": "", "com.example.voip.client": "", "shop": "", "ABCDEFGHIJ.app": "",
		"com.example.shop.voip": voip, "com.example.shop.VoIP": voip,
		"com.example.shop.pushkit.fileprovider":   "ends in .pushkit.fileprovider, which pushpace adds by the push type: want com.example.shop",
		"com.example.shop.push-type.liveactivity": "ends in .push-type.liveactivity, which pushpace adds by the push type: want com.example.shop",
		"com.example.shop.voip-ptt":               "ends in .voip-ptt, which pushpace adds by the push type: want com.example.shop",
		"com.example.shop.voip.voip":              "ends in .voip.voip, which pushpace adds by the push type: want com.example.shop",
		"TEAM456789.com.example.shop":             "begins with a team's ID, which is no part of a topic: want com.example.shop",
		"team456789.com.example.shop":             "begins with a team's ID, which is no part of a topic: want com.example.shop",
		"ABCDE12345.com.example.shop.voip":        voip,
		"com.example.shop ":                       "ends in a space: remove it", "com.example.shop\n": "ends in white space (U+000A): remove it", "\u00a0com.example.shop": "begins with white space (U+00A0): remove it",
		"": bundle, "com example": bundle + ": letters, digits, hyphens and dots", ".voip": bundle + ": letters, digits, hyphens and dots", "com..shop": bundle + ": letters, digits, hyphens and dots",
		"com.example.*": bundle + ": letters, digits, hyphens and dots", "com.exämple": bundle + ": letters, digits, hyphens and dots",
	} {
		if got := (Config{Topic: topic, TeamID: "TEAM456789"}).topicFault(); got != want {
			t.Errorf("%q: %q, want %q", topic, got, want)
		}
	}
}

func TestConfigHostFollowsEnvironment(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Config{
		apns2.HostProduction:     {},
		apns2.HostDevelopment:    {Environment: Sandbox},
		"https://localhost:2197": {Endpoint: "https://localhost:2197/"},
	} {
		if got := c.host(); got != want {
			t.Errorf("host() = %s, want %s", got, want)
		}
	}
}

func TestSenderErrorReportsFaultyKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk.pem")
	must(t, os.WriteFile(junk, []byte("hunter2"), 0o600))
	key := Config{Topic: "t", KeyID: "ABCDEFGHIJ", TeamID: "0123456789"}
	for want, c := range map[string]Config{
		"topic":            {},
		"key_file":         {Topic: "t", KeyFile: junk, KeyID: key.KeyID, TeamID: key.TeamID},
		"certificate_file": {Topic: "t", CertificateFile: junk},
		"password_file":    {Topic: "t", CertificateFile: junk, PasswordFile: filepath.Join(dir, "none")},
		"root_ca_file":     {Topic: "t", CertificateFile: junk, RootCAFile: junk},
	} {
		_, err := New(c)
		if err == nil || !strings.HasPrefix(err.Error(), want+":") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", want, err)
		}
	}
}
