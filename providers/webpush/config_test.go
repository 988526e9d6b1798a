package webpush

import (
	"strings"
	"testing"
	"time"
)

func validConfig() Config {
	return Config{Subject: "mailto:push@example.com", PrivateKeyFile: "vapid.pem"}
}

func TestConfigErrorReportsFaultyKeys(t *testing.T) {
	t.Parallel()
	subject := func(s string) func(*Config) { return func(c *Config) { c.Subject = s } }
	hosts := func(h ...string) func(*Config) { return func(c *Config) { c.Hosts = h } }
	for name, c := range map[string]struct {
		change func(*Config)
		key    string // at fault; "" for none
	}{
		"least":     {func(*Config) {}, ""},
		"a site":    {subject("https://example.com/contact"), ""},
		"each host": {hosts("*"), ""},
		"hosts":     {hosts("fcm.googleapis.com", "*.push.apple.com"), ""},
		"all": {func(c *Config) {
			c.Timeout, c.DryRun, c.Endpoint, c.RootCAFile = time.Minute, true, "https://[::1]:8443/", "ca.pem"
		}, ""},
		"no subject":            {subject(""), "subject"},
		"an address alone":      {subject("push@example.com"), "subject"},
		"mailto twice":          {subject("mailto:mailto:push@example.com"), "subject"},
		"angle brackets":        {subject("mailto:<push@example.com>"), "subject"},
		"localhost":             {subject("mailto:push@localhost"), "subject"},
		"invalid":               {subject("https://a.invalid"), "subject"},
		"an IP address":         {subject("https://192.0.2.1/contact"), "subject"},
		"http":                  {subject("http://example.com"), "subject"},
		"no key":                {func(c *Config) { c.PrivateKeyFile = "" }, "private_key_file"},
		"a URL as host":         {hosts("https://a.example"), "hosts"},
		"upper case":            {hosts("A.example"), "hosts"},
		"a star within":         {hosts("a.*.example"), "hosts"},
		"a star before a label": {hosts("*.com"), "hosts"},
		"any host and another":  {hosts("*", "a.example"), "hosts"},
		"an address":            {hosts("127.0.0.1"), "hosts"},
		"http endpoint":         {func(c *Config) { c.Endpoint = "http://127.0.0.1" }, "endpoint"},
		"endpoint with a path":  {func(c *Config) { c.Endpoint = "https://127.0.0.1/x" }, "endpoint"},
		"long timeout":          {func(c *Config) { c.Timeout = 2 * time.Minute }, "timeout"},
		"negative timeout":      {func(c *Config) { c.Timeout = -1 }, "timeout"},
	} {
		cfg := validConfig()
		c.change(&cfg)
		if err := cfg.Validate(); (err == nil) != (c.key == "") || err != nil && !strings.Contains(err.Error(), c.key) {
			t.Errorf("%s: %v, want a fault of %s", name, err, c.key)
		}
	}
}
