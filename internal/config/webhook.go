package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/base/metadata"
)

// Reports configures where an app's reports of one kind are posted, besides their stream in Redis.
type Reports struct {
	// Posts the reports of the stream: see docs/webhooks.md.
	Webhook *Webhook `yaml:"webhook"`
}

// Webhook is the target of posts.
type Webhook struct {
	// Required: https, or http on the loopback; no link-local address and no metadata service.
	URL WebhookURL `yaml:"url" kind:"URL"`
	// Signs each request: `whsec_` and the base64 of 24 to 64 bytes. During a
	// [change](webhooks.md#the-signature) it holds two of them, separated by white space. Required,
	// here or in `secret_file`.
	Secret Secret `yaml:"secret"`
	// A file with the secret.
	SecretFile string `yaml:"secret_file"`
	// The longest time for one request.
	Timeout time.Duration `yaml:"timeout" default:"5s" range:"100ms..30s"`
}

// WebhookURL is a URL of which logs and errors show only scheme and host: its path
// and query may hold a secret. string(u) is the URL itself.
type WebhookURL string

// String returns scheme and host; "" for an empty URL.
func (u WebhookURL) String() string {
	if u == "" {
		return ""
	}
	parsed, err := url.Parse(string(u))
	if err != nil || parsed.Host == "" {
		return hidden
	}
	return parsed.Scheme + "://" + parsed.Host
}

// GoString hides the same as String.
func (u WebhookURL) GoString() string { return fmt.Sprintf("%q", u.String()) }

// MarshalText hides the same as String.
func (u WebhookURL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText stores the text unchanged.
func (u *WebhookURL) UnmarshalText(text []byte) error {
	*u = WebhookURL(text)
	return nil
}

// LogValue hides the same as String.
func (u WebhookURL) LogValue() slog.Value { return slog.StringValue(u.String()) }

const secretPrefix = "whsec_"

// Keys returns the keys that sign each post, from Secret: whsec_ and the base64 of 24 to 64 bytes;
// two of these, separated by white space, while the secret changes.
func (w *Webhook) Keys() ([][]byte, error) {
	texts := strings.Fields(string(w.Secret))
	if len(texts) > 2 {
		return nil, fmt.Errorf("white space splits it into %d secrets; want one, or two while it changes", len(texts))
	}
	keys := make([][]byte, len(texts))
	for i, text := range texts {
		encoded, prefixed := strings.CutPrefix(text, secretPrefix)
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !prefixed || err != nil || len(key) < 24 || len(key) > 64 {
			err := errors.New(`want whsec_ and the base64 of 24 to 64 random bytes: make one with echo "whsec_$(openssl rand -base64 32)"`)
			if len(texts) > 1 {
				err = fmt.Errorf("white space splits it into two secrets, and number %d is not valid: %w", i+1, err)
			}
			return nil, err
		}
		keys[i] = key
	}
	return keys, nil
}

func (w *Webhook) check(k *check, key string) {
	if w.URL == "" {
		k.fault(join(key, "url"), "is missing")
	} else if !safeURL(string(w.URL)) {
		k.fault(join(key, "url"), "want https://HOST, or http:// with a loopback address, and no user name in it")
	} else if isMetadata(string(w.URL)) {
		k.fault(join(key, "url"), metadata.ErrAddress.Error()+": nothing is posted there")
	}
	if w.Secret == "" && w.SecretFile == "" {
		k.fault(join(key, "secret"), "is missing: want secret or secret_file, which sign what is posted")
	} else if _, err := w.Keys(); err != nil && w.SecretFile != "" {
		k.fault(join(key, "secret_file"), w.SecretFile+": "+err.Error())
	} else if err != nil {
		k.fault(join(key, "secret"), err.Error())
	}
}

// isMetadata reports whether the URL's host is the address of a metadata service. A host name
// is checked when it is dialled.
func isMetadata(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(strings.TrimSuffix(u.Hostname(), "."))
	return err == nil && metadata.Holds(ip)
}

// safeURL reports whether a post to the URL stays secret on its way.
func safeURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return false
	}
	if u.Scheme == "http" {
		ip, err := netip.ParseAddr(u.Hostname())
		return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
	}
	return u.Scheme == "https"
}
