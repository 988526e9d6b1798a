package app

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// No error contains a part of a subscription, because a reader of the subscription could send to
// the browser.
func TestSubscriptionErrorHoldsNoSecret(t *testing.T) {
	t.Parallel()
	const secret = "canary"
	file := filepath.Join(t.TempDir(), "subscription.json")
	must(t, os.WriteFile(file, []byte(`{"endpoint":"https://push.example/`+secret+`"}`), 0o600))
	for given, want := range map[string]string{
		file: "is no subscription",
		`{"endpoint":"https://push.example/` + secret + `"}`: "want a FILE",
		"https://push.example/" + secret:                     "want a FILE",
		filepath.Join(t.TempDir(), "none.json"):              "no such file",
	} {
		if _, err := readSubscription(given); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", given, err)
		}
	}
}

func TestSubscriptionFileMayHaveByteOrderMark(t *testing.T) {
	t.Parallel()
	key := func(n int) string { return base64.RawURLEncoding.EncodeToString(make([]byte, n)) }
	text := fmt.Sprintf(`{"endpoint":"https://updates.push.services.mozilla.com/x","keys":{"p256dh":%q,"auth":%q}}`, key(65), key(16))
	file := filepath.Join(t.TempDir(), "s.json")
	write := func(text string) {
		must(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write("\ufeff" + text)
	if target, err := readSubscription(file); err != nil || target.Keys == nil {
		t.Error(err)
	}
	write("\xff\xfe{\x00")
	if _, err := readSubscription(file); err == nil || !strings.HasPrefix(err.Error(), file+": is in UTF-16") {
		t.Error(err)
	}
}
