package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// No error about a subscription holds any of it: who has it may send to the browser.
func TestASubscriptionIsNotRepeated(t *testing.T) {
	t.Parallel()
	const secret = "canary"
	file := filepath.Join(t.TempDir(), "subscription.json")
	if err := os.WriteFile(file, []byte(`{"endpoint":"https://push.example/`+secret+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
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
