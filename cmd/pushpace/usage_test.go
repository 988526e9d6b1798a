//go:build unix

package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace"
	"github.com/pushpace/pushpace/internal/redistest"
)

func TestWrongUse(t *testing.T) {
	t.Parallel()
	shipped := write(t, "config.yaml", string(pushpace.ConfigYAML))
	for _, c := range []struct {
		name string
		dir  string
		args []string
		want string // in standard error
	}{
		{"unknown command", "", []string{"sevre"}, `unknown command "sevre"`},
		{"unknown flag", "", []string{"serve", "--bogus"}, "--bogus"},
		{"argument too many", "", []string{"version", "x"}, "x"},
		{"no configuration", "", []string{"serve"}, "there is no config.yaml"},
		{"another configuration is missing", shipped, []string{"serve", "--config", "none.yaml"}, "none.yaml: "},
		{"send to the embedded Redis", shipped, []string{"send", "--app", "demo"}, "config.yaml: redis.address: the embedded Redis"},
		{"status in the embedded Redis", shipped, []string{"status", "order-1"}, "config.yaml: redis.address: the embedded Redis"},
		{"no user", shipped, []string{"timeline"}, "timeline: want USER, as in pushpace timeline ada; see pushpace timeline --help"},
		{"no ID", "", []string{"status"}, "status: want ID, as in pushpace status order-4711-shipped; see pushpace status --help"},
		{"no role", "", []string{"token", "new", "shop"}, "token new: want NAME ROLE [--app NAME]..., as in pushpace token new shop producer; see pushpace token new --help"},
		{"no letter", "", []string{"dead", "purge"}, "dead purge: want ID [ID …] or --all [--reason REASON …] [--expect N], as in pushpace dead purge order-4711-shipped; see pushpace dead purge --help"},
		{"two to cancel", "", []string{"cancel", "a", "b"}, "cancel: want ID or --all [--category CATEGORY …] [--expect N], as in pushpace cancel order-4711-shipped; see"},
		{"unknown shell", "", []string{"completion", "tcsh"}, "tcsh"},
		{"no shell", "", []string{"completion"}, "completion: want bash"},
		{"API and configuration", shipped, []string{"audit", "--api", "http://127.0.0.1:1", "-c", "config.yaml"}, "--config and --api"},
		{"API's URL", "", []string{"audit", "--api", "ftp://ada:hunter2@a"}, "the API's URL: want http://"},
		{"API's URL with a user", "", []string{"audit", "--api", "http://ada:hunter2@a"}, "the API's URL holds a user"},
		{"API's URL with a version", "", []string{"audit", "--api", "http://127.0.0.1:1/v1/"}, "want it without /v1"},
		{"token in plain", write(t, "token", "hunter2"), []string{"audit", "--api", "http://a.example", "--token-file", "token"}, "use https"},
		{"no token file", "", []string{"audit", "--api", "http://127.0.0.1:1", "--token-file", "none"}, "--token-file: none: "},
		{"token that is none", write(t, "token", "hunter2\nhunter3\n"), []string{"audit", "--api", "http://127.0.0.1:1", "--token-file", "token"}, "that is no token"},
		{"no authorities", write(t, "ca", "hunter2"), []string{"audit", "--api", "https://127.0.0.1:1", "--ca-file", "ca"}, "holds no certificate"},
		{"token without an API", shipped, []string{"audit", "--token-file", "token"}, "--token-file is for the HTTP API"},
		{"file and flags", shipped, []string{"send", "--file", "-", "--app", "demo"}, "--file and --app"},
		{"data without value", shipped, []string{"send", "--data", "k"}, "--data: want KEY=VALUE"},
		{"ttl", shipped, []string{"send", "--ttl", "5 days"}, "want a duration such as 90s, 2h or 5d"},
		{"instant", shipped, []string{"send", "--expires-at", "tomorrow"}, "--expires-at: want an instant"},
		{"simulate's app", "", []string{"simulate", "--app", "a-b"}, "--app: "},
		{"simulate's folder", "", []string{"simulate", "--dir", "a b"}, "--dir: "},
		{"demo on a Cluster", "", []string{"demo", "--redis", "a:1,b:2"}, "--redis: want one host:port"},
		{"demo on a URL", "", []string{"demo", "--redis", "redis://:hunter2@a:1"}, "--redis: a URL is not supported"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, setup{dir: c.dir}, c.args...)
			if got := p.wait(t, 10*time.Second); got != exitUsage {
				t.Errorf("exit status %d, want %d", got, exitUsage)
			}
			if got := p.stderr.String(); !strings.Contains(got, c.want) || strings.Contains(got, "hunter2") {
				t.Errorf("standard error %q, want %q in it", got, c.want)
			}
			if got := p.stdout.String(); got != "" {
				t.Errorf("standard output %q", got)
			}
		})
	}
}

func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"unknown key", "redis:\n  address: embedded\n  adress: x\n", "bad.yaml:3:3: redis.adress: "},
		{"zero period", "limits:\n  default: {rates: [10/0s]}\nredis: {address: embedded}\n", "bad.yaml:2:21: limits.default.rates[0]: "},
		{"negative rate", "redis: {address: embedded}\nlimits:\n  default:\n    rates: [-1/1m]\n", "bad.yaml:4:13: limits.default.rates[0]: "},
		{"rate in words", "redis: {address: embedded}\nlimits:\n  categories:\n    m: {rates: [ten/1m]}\n", "bad.yaml:4:17: limits.categories.m.rates[0]: "},
		{"mistyped Redis", "redis: {address: embeded}\n", "bad.yaml:1:18: redis.address: "},
		{"credential file", "redis: {address: embedded}\napps:\n  shop:\n    fcm:\n      credentials_file: none.json\n", "bad.yaml:5:25: apps.shop.fcm.credentials_file: "},
	} {
		for _, command := range []string{"serve", "check"} {
			t.Run(c.name+" "+command, func(t *testing.T) {
				t.Parallel()
				p := start(t, setup{dir: write(t, "bad.yaml", c.text), env: []string{"PUSHPACE_CONFIG=bad.yaml"}}, command)
				if got := p.wait(t, 10*time.Second); got != exitUsage {
					t.Errorf("exit status %d, want %d", got, exitUsage)
				}
				if got := p.stderr.String(); !strings.Contains(got, c.want) {
					t.Errorf("standard error %q, want %q in it", got, c.want)
				}
			})
		}
	}
}

func TestBadCredential(t *testing.T) {
	t.Parallel()
	dir := write(t, "config.yaml", "redis: {address: embedded}\napps: {shop: {fcm: {credentials_file: key.json}}}\n")
	if err := os.WriteFile(filepath.Join(dir, "key.json"), []byte(`{"private_key":"hunter2"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, setup{dir: dir}, "check")
	if got := p.wait(t, 10*time.Second); got != exitUsage {
		t.Errorf("exit status %d, want %d", got, exitUsage)
	}
	if got := p.stderr.String(); !strings.Contains(got, "config.yaml: apps.shop.fcm.credentials_file: ") || strings.Contains(got, "hunter2") {
		t.Errorf("standard error %q", got)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	dir := write(t, "config.yaml", string(pushpace.ConfigYAML))
	env := []string{"PUSHPACE_REDIS__ADDRESS=10.0.0.1:6379", "PUSHPACE_REDIS__PASSWORD=hunter2", "PUSHPACE_LIMITS__DEFAULT__RATES=5/1m"}
	p := start(t, setup{dir: dir, env: env}, "check", "--json")
	if got := p.wait(t, 10*time.Second); got != exitDone {
		t.Fatalf("exit status %d: %s", got, &p.stderr)
	}
	var e effective
	if err := json.Unmarshal([]byte(p.stdout.String()), &e); err != nil {
		t.Fatal(err)
	}
	if e.Redis.Address != "10.0.0.1:6379" || !e.Redis.Password || len(e.Limits.Default.Rates) != 1 ||
		!e.Limits.Categories["security"].Exempt || !e.Apps["demo"].Simulated {
		t.Errorf("got %+v", e)
	}
	for _, c := range []struct {
		args        []string
		says        string
		least, most int // lines
	}{{[]string{"check"}, "redis   10.0.0.1:6379\n", 3, 6}, {[]string{"check", "--verbose"}, "address: 10.0.0.1:6379\n", 30, 100}} {
		got := ended(t, setup{dir: dir, env: env}, c.args...)
		if lines := strings.Count(got.stdout, "\n"); got.status != exitDone || lines < c.least || lines > c.most ||
			!strings.Contains(got.stdout, c.says) || strings.Contains(got.stdout, "hunter2") {
			t.Errorf("%v: %+v", c.args, got)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	p := start(t, setup{}, "version", "--json")
	if got := p.wait(t, 10*time.Second); got != exitDone {
		t.Fatalf("exit status %d: %s", got, &p.stderr)
	}
	var v version
	if err := json.Unmarshal([]byte(p.stdout.String()), &v); err != nil || v.Version == "" || v.Go == "" {
		t.Errorf("%v: %s", err, &p.stdout)
	}
	for _, flag := range []string{"--version", "-v"} {
		if got := ended(t, setup{}, flag); got.status != exitDone || got.stdout != v.String()+"\n" {
			t.Errorf("%s: %+v, want %s", flag, got, v)
		}
	}
}

// A Redis that cannot be used is told within 10 s, by its address and without
// its password, by every command that needs one.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	hanging, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hanging.Close() })
	const password = "hunter2"
	protected := redistest.Start(t, redistest.Password("another")).Addr()
	dir := write(t, "config.yaml", string(pushpace.ConfigYAML))
	for name, address := range map[string]string{
		"unreachable": redistest.FreeAddress(t), "hanging": hanging.Addr().String(), "wrong password": protected,
	} {
		for _, args := range [][]string{{"serve"}, {"send", "--app", "demo", "--user", "u"}, {"check", "--redis"}, {"demo", "--redis", address}} {
			t.Run(name+" "+args[0], func(t *testing.T) {
				t.Parallel()
				p := start(t, setup{dir: dir, env: []string{"PUSHPACE_REDIS__ADDRESS=" + address, "PUSHPACE_REDIS__PASSWORD=" + password}}, args...)
				if got := p.wait(t, 10*time.Second); got != exitFailed {
					t.Errorf("exit status %d, want %d", got, exitFailed)
				}
				if got := p.stderr.String(); !strings.Contains(got, address) || strings.Contains(got, password) {
					t.Errorf("standard error %q: want %s in it, and no password", got, address)
				}
			})
		}
	}
}
