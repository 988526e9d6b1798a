//go:build unix

package main

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// From the reload on a token is for its apps alone, and the command line says so of what
// it is refused.
func TestServeScopes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const token = "ada-token-0123456789"
	configure := func(apps string) {
		s.configure(t, "\napps:\n", "\napps:\n  shop: {simulated: true}\n",
			"http:\n", fmt.Sprintf("http:\n  listen: 127.0.0.1:0\n  tokens: [{name: ada, role: operator, sha256: %x%s}]\n", sha256.Sum256([]byte(token)), apps))
	}
	configure("")
	p := start(t, s.setup, "serve", "--only", "api")
	p.until(t, "serving", func() bool { return strings.Contains(p.stderr.String(), "serving") })
	remote := through(regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(p.stderr.String()), token)
	for _, app := range []string{"shop", "demo"} {
		o := limits.Override{Level: limits.Level{App: app, User: "eve"}, Policy: throttle.Policy{Rates: []throttle.Rate{{Count: 3, Period: time.Minute}}}, By: "test"}
		if err := limits.NewOverrides(s.client, "", 0).Set(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if got := ended(t, remote, "limits", "list"); !strings.Contains(got.stdout, "demo") || !strings.Contains(got.stdout, "shop") {
		t.Errorf("%+v", got)
	}
	configure(", apps: [shop]")
	p.hangUp(t)
	p.says(t, 1, "the configuration is reloaded", "[ada (operator)] → [ada (operator, [shop])]")
	const alone = "403 Forbidden: The token is for the app shop alone, and this is another's or everybody's"
	for _, c := range []struct {
		args      string
		status    int
		says, not string
	}{
		{args: "limits list", says: "shop", not: "demo"},
		{args: "limits get --app shop --user eve", says: "3/1m"},
		{args: "limits get --user eve", status: exitFailed, says: alone},
		{args: "limits get --app demo --user eve", status: exitFailed, says: alone},
		{args: "limits set --user eve --rate 5/1m", status: exitFailed, says: alone},
		{args: "limits unset --app nobody --user eve", status: exitFailed, says: alone},
		{args: "limits set --app shop --user eve --rate 5/1m", says: ""},
		{args: "pause --app demo", status: exitFailed, says: alone},
		{args: "pause --app shop"},
		{args: "pauses", says: "shop"},
		{args: "resume --app shop", says: ""},
		{args: "audit", status: exitFailed, says: alone},
		{args: "timeline eve", says: "eve"},
		{args: "timeline eve --app demo", status: exitFailed, says: alone},
		{args: "send --app demo --user eve --title t --fcm t", status: exitFailed, says: "/app: the token is for the app shop alone"},
		{args: "send --app shop --user eve --title t --fcm t --id own"},
		{args: "overview", says: "1 notification waits of shop"},
		{args: "status own", says: "own"},
	} {
		got := ended(t, remote, strings.Fields(c.args)...)
		if text := got.stdout + got.stderr; got.status != c.status || !strings.Contains(text, c.says) || c.not != "" && strings.Contains(text, c.not) {
			t.Errorf("%s: %+v", c.args, got)
		}
	}
	s.stop(t, p)
}
