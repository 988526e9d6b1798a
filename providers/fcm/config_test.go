package fcm_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers/fcm"
	"github.com/pushpace/pushpace/providers/fcm/fcmtest"
	"github.com/pushpace/pushpace/providers/providertest"
)

func TestConfigErrorReportsFaultyKeys(t *testing.T) {
	t.Parallel()
	bad := fcm.Config{ProjectID: "a/b", Endpoint: "http://user:secret@host", Timeout: -1}
	err := bad.Validate()
	if err == nil {
		t.Fatal("no fault found")
	}
	for _, key := range []string{"credentials_file: ", "project_id: ", "endpoint: ", "timeout: "} {
		if !strings.Contains(err.Error(), key) {
			t.Errorf("%v does not name %s", err, key)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the error holds a secret: %v", err)
	}
	for _, endpoint := range []string{"ftp://host", "host:80", "https://", "https://host?x=1", "https://u@host", "https://host#f", ":"} {
		if (fcm.Config{CredentialsFile: "c", Endpoint: endpoint}).Validate() == nil {
			t.Errorf("endpoint %q is taken", endpoint)
		}
	}
	if (fcm.Config{CredentialsFile: "c", Timeout: time.Hour}).Validate() == nil {
		t.Error("a timeout of an hour is taken")
	}
}

func TestSenderErrorReportsFaultyFile(t *testing.T) {
	t.Parallel()
	_, good := start(t, fcmtest.Options{})
	credentials, err := os.ReadFile(good.CredentialsFile)
	must(t, err)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	replaced := func(name, old, new string) string {
		if !strings.Contains(string(credentials), old) {
			t.Fatalf("the credentials hold no %q", old)
		}
		return file(name, strings.ReplaceAll(string(credentials), old, new))
	}
	for _, c := range []struct {
		name   string
		change func(*fcm.Config)
		want   string
	}{
		{"no such credentials", func(c *fcm.Config) { c.CredentialsFile = filepath.Join(dir, "none") }, "credentials_file: "},
		{"not PEM", func(c *fcm.Config) { c.CredentialsFile = replaced("pem", "-----BEGIN", "-----") }, "private_key"},
		{"not a key", func(c *fcm.Config) { c.CredentialsFile = replaced("key", "MII", "AAA") }, "private_key"},
		{"no email", func(c *fcm.Config) { c.CredentialsFile = replaced("email", "client_email", "x") }, "client_email"},
		{"token_uri without TLS", func(c *fcm.Config) { c.CredentialsFile = replaced("uri", "https://", "http://") }, "token_uri"},
		{"no project", func(c *fcm.Config) { c.CredentialsFile = replaced("project", "project_id", "x") }, "project_id: "},
		{"no such root", func(c *fcm.Config) { c.RootCAFile = filepath.Join(dir, "none") }, "root_ca_file: "},
		{"not a root", func(c *fcm.Config) { c.RootCAFile = file("root", "text") }, "root_ca_file: "},
		{"invalid", func(c *fcm.Config) { c.Timeout = -1 }, "timeout: "},
	} {
		cfg := good
		c.change(&cfg)
		sender, err := fcm.New(t.Context(), cfg)
		if err == nil {
			_ = sender.Close()
			t.Errorf("%s: no error", c.name)
			continue
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if strings.Contains(err.Error(), providertest.KeyLine(t, good.CredentialsFile, `\n`)[:20]) {
			t.Errorf("%s: the error holds the key", c.name)
		}
	}
}
