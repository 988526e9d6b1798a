//go:build unix

package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pushpace/pushpace"
	"github.com/pushpace/pushpace/internal/config"
)

// send --dry-run prints what the providers would get, connects to nothing, and
// refuses what would be refused.
func TestDryRun(t *testing.T) {
	t.Parallel()
	dir := write(t, "config.yaml", string(pushpace.ConfigYAML))
	s := setup{dir: dir, env: []string{"PUSHPACE_REDIS__ADDRESS=127.0.0.1:1"}} // where nothing answers
	flags := []string{"send", "--dry-run", "--app", "demo", "--user", "ada", "--category", "orders", "--id", "order-1", "--apns", "00fc", "--fcm", "pixel",
		"--title", "Shipped", "--collapse-key", "order", "--ttl", "1h", "--priority", "bulk"}
	got := ended(t, s, flags...)
	for _, want := range []string{"notification order-1\n", "\napns 00fc\napns-id: ", "apns-push-type: alert\napns-priority: 5\napns-expiration: 1", "apns-collapse-id: order\n",
		`"title": "Shipped"`, "\nfcm pixel\n", `"ttl": "3600s"`, `"token": "pixel"`} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("no %q in\n%s", want, got.stdout)
		}
	}
	if got.status != exitDone || got.stderr != "Nothing was enqueued.\n" {
		t.Errorf("%+v", got)
	}
	var r rendering
	got = ended(t, s, append(flags, "--json")...)
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || len(r.Targets) != 2 || r.Targets[0].Token != "00fc" ||
		!strings.Contains(string(r.Targets[0].Payload), `"alert":{"title":"Shipped"}`) || !strings.Contains(string(r.Targets[1].Message), `"title":"Shipped"`) {
		t.Errorf("%v: %+v", err, got)
	}
	many := s
	many.stdin = strings.NewReader(notification("one", "ada", "chat", "apns", "00") + "{\n" +
		strings.Replace(notification("two", "ada", "", "apns", "00"), `"demo"`, `"dmeo"`, 1) + notification("three", "ada", "", "fcm", "pixel"))
	got = ended(t, many, "send", "--dry-run", "--json", "--file", "-")
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	if got.status != exitFailed || len(lines) != 4 || !strings.HasPrefix(lines[0], `{"line":1,"id":"one","warnings":["category chat is not configured"],"targets":[`) || !strings.HasPrefix(lines[1], `{"line":2,"error":`) ||
		!strings.Contains(lines[2], "did you mean demo?") || !strings.HasPrefix(lines[3], `{"line":4,"id":"three"`) || strings.Count(got.stderr, "warning: category chat is not configured") != 1 {
		t.Errorf("%+v", got)
	}
	if got := ended(t, s, "send", "--dry-run", "--app", "demo", "--user", "ada", "--apns", "00"); got.status != exitFailed || !strings.Contains(got.stdout, `"field":"/push_type"`) {
		t.Errorf("%+v", got)
	}
	if got := ended(t, through("http://127.0.0.1:1", ""), flags...); got.status != exitUsage || !strings.Contains(got.stderr, "--dry-run goes by the configuration") {
		t.Errorf("%+v", got)
	}
}

// What token new prints is a token and a line that the configuration takes for it.
func TestTokenNew(t *testing.T) {
	t.Parallel()
	got := ended(t, setup{}, "token", "new", "the shop", "producer")
	token, line, _ := strings.Cut(strings.TrimSuffix(got.stdout, "\n"), "\n")
	c, err := config.Parse("c.yaml", []byte("redis: {address: embedded}\nhttp:\n  tokens:\n    "+line+"\n"), nil)
	if err != nil || got.status != exitDone {
		t.Fatalf("%v: %+v", err, got)
	}
	want := config.Token{Name: "the shop", Role: config.Producer, SHA256: config.Hash(sha256.Sum256([]byte(token)))}
	if len(c.HTTP.Tokens) != 1 || !reflect.DeepEqual(c.HTTP.Tokens[0], want) || len(token) < 26 {
		t.Errorf("%+v: %+v", c.HTTP.Tokens, got)
	}
	scoped := ended(t, setup{}, "token", "new", "eve", "viewer", "--app", "shop", "--app", `the "kiosk"`)
	_, line, _ = strings.Cut(strings.TrimSuffix(scoped.stdout, "\n"), "\n")
	c, err = config.Parse("c.yaml", []byte("redis: {address: embedded}\nhttp:\n  tokens:\n    "+line+"\n"), nil)
	if err != nil || !slices.Equal(c.HTTP.Tokens[0].Apps, []string{"shop", `the "kiosk"`}) {
		t.Errorf("%v: %+v", err, scoped)
	}
	var shown struct{ Token, Name, Role, SHA256 string }
	again := ended(t, setup{}, "token", "new", "ada", "operator", "--json")
	if err := json.Unmarshal([]byte(again.stdout), &shown); err != nil || shown.Token == token || shown.SHA256 != fmt.Sprintf("%x", sha256.Sum256([]byte(shown.Token))) {
		t.Errorf("%v: %+v", err, again)
	}
	for _, args := range [][]string{{"token"}, {"token", "new", "shop"}, {"token", "new", "", "producer"}, {"token", "new", "shop", "admin"}, {"token", "new", "shop", "viewer", "--app", ""}, {"token", "new", "shop", "viewer", "--app", "a", "--app", "a"}} {
		if got := ended(t, setup{}, args...); got.status != exitUsage || got.stdout != "" {
			t.Errorf("%v: %+v", args, got)
		}
	}
}
