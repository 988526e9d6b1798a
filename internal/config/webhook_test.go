package config

import (
	"encoding/base64"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestWebhookAtMetadataServiceIsRefused(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://example.com/x": "", "https://10.0.0.1/x": "", "https://[fd00::1]:8443/x": "", "http://127.0.0.1:1/x": "", "http://[::1]:1/x": "",
		"https://169.254.169.254/latest": "link-local", "https://169.254.169.254./latest": "link-local", "https://169.254.170.2:443/": "link-local", "https://[fe80::1]/": "link-local", "https://[fe80::1%25eth0]/": "link-local",
		"https://[::ffff:169.254.169.254]/": "link-local", "https://[::ffff:a9fe:a9fe]/": "link-local", "https://[fd00:ec2::254]/": "link-local", "https://100.100.100.200/": "link-local", "https://0.0.0.0/": "link-local",
		"http://hooks.default.svc/x": "want https://HOST, or http:// with a loopback address", "http://169.254.169.254/": "want https://HOST",
	} {
		k := new(check)
		var w Webhook
		setDefaults(reflect.ValueOf(&w).Elem())
		w.URL, w.Secret = WebhookURL(url), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
		w.check(k, "w")
		err := k.faults.orNil()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestWebhookSecretHasOneOrTwoKeys(t *testing.T) {
	t.Parallel()
	const one, other = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	of := func(n int) string { return "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, n)) }
	for secret, want := range map[string]int{
		one: 24, one + " " + other: 24 + 32, one + "\n" + other: 24 + 32, of(64): 64,
		of(23): 0, of(65): 0, strings.TrimPrefix(one, "whsec_"): 0, one + "=": 0, one + "," + other: 0, one + " x": 0, "0123456789abcdef": 0,
		one + " " + one + " " + one: 0,
	} {
		w := Webhook{Secret: Secret(secret)}
		keys, err := w.Keys()
		if got := len(slices.Concat(keys...)); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d bytes, %v; want %d", secret, got, err, want)
		}
	}
}
