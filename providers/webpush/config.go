package webpush

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/base/fielderrors"
	"github.com/pushpace/pushpace/push"
)

// DefaultTimeout bounds one attempt when Config.Timeout is zero.
const DefaultTimeout = 10 * time.Second

// MaxTimeout is the longest Config.Timeout.
const MaxTimeout = time.Minute

// A Config describes how to send Web Push on behalf of one app.
type Config struct {
	// A push service's contact: `mailto:` and an address, or https; at a real domain.
	//
	// Source: RFC 8292, section 2.1.
	Subject string `yaml:"subject" kind:"URL"`
	// The app's [key](webpush.md#a-key).
	//
	// ParseKey reads it.
	PrivateKeyFile string `yaml:"private_key_file"`
	// The hosts of endpoints: names, `*.` and a name for all below it, or `*` alone for any public
	// host.
	//
	// Empty means push.WebPushHosts.
	Hosts []string `yaml:"hosts"`
	// The longest time for an attempt, including the connection setup.
	//
	// 0 means DefaultTimeout; at most MaxTimeout.
	Timeout time.Duration `yaml:"timeout" default:"10s" range:"1ms..1m"`
	// Encrypts and signs, but opens no connection.
	//
	// A notification that would be sent is delivered, with the reason providers.DryRun.
	DryRun bool `yaml:"dry_run" default:"false"`
	// Replaces every push service; its address is not checked.
	//
	// It is an https URL with host and port, such as a stand-in's.
	Endpoint string `yaml:"endpoint" kind:"URL"`
	// The trusted authorities, instead of the system's.
	RootCAFile string `yaml:"root_ca_file"`
}

// Validate returns every fault of the configuration, each with its key. It reads no file.
func (c Config) Validate() error {
	var all fielderrors.Faults
	if problem := checkSubject(c.Subject); problem != "" {
		all.Add("subject", "%s", problem)
	}
	if c.PrivateKeyFile == "" {
		all.Add("private_key_file", "is missing: name the file of the private key whose public key the site subscribes with")
	}
	for _, host := range c.Hosts {
		name := strings.TrimPrefix(host, "*.")
		switch {
		case host == push.AnyHost && len(c.Hosts) > 1:
			all.Add("hosts", `"*" allows every public host: remove the other hosts`)
		case host != push.AnyHost && !push.IsHostName(name):
			all.Add("hosts", `%q is not a host's name in lower case, "*." and a name, or "*"`, host)
		}
	}
	if c.Endpoint != "" && !isServer(c.Endpoint) {
		all.Add("endpoint", "must be https://host or https://host:port")
	}
	if c.Timeout < 0 || c.Timeout > MaxTimeout {
		all.Add("timeout", "%v is not between 0 and %v", c.Timeout, MaxTimeout)
	}
	return all.Err()
}

// checkSubject returns the problem of a subject, "" for none. Apple refuses a subject without a
// domain of the public Internet.
func checkSubject(subject string) string {
	const example = "want mailto: and an address, or an https URL, such as mailto:push@example.com"
	if subject == "" {
		return "is missing: " + example
	}
	u, err := url.Parse(subject)
	if err != nil || strings.Trim(subject, printable) != "" || strings.ContainsAny(subject, "<>") {
		return "is not a URL: " + example
	}
	host := u.Hostname()
	switch u.Scheme {
	case "mailto":
		user, domain, _ := strings.Cut(u.Opaque, "@")
		if user == "" || strings.Contains(user, ":") || strings.ContainsAny(domain, "@,") || u.RawQuery != "" {
			return "does not name one address: " + example
		}
		host = domain
	case "https":
	default:
		return "is neither mailto: nor https: " + example
	}
	host = strings.ToLower(host)
	if _, err := netip.ParseAddr(host); err == nil || !push.IsHostName(host) || isReserved(host) {
		return "has no public domain, and Apple refuses it: " + example
	}
	return ""
}

// printable are the printable ASCII characters.
const printable = "!\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"

// isReserved reports whether a name is below a reserved domain. Source: RFC 6761, RFC 6762.
func isReserved(host string) bool {
	return slices.ContainsFunc([]string{".localhost", ".local", ".invalid", ".test", ".internal"}, func(suffix string) bool {
		return strings.HasSuffix(host, suffix)
	})
}

func isServer(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme == "https" && u.Hostname() != "" && u.User == nil &&
		(u.Path == "" || u.Path == "/") && u.RawQuery == "" && u.Fragment == ""
}

// AllowedHosts returns Hosts, or its default if empty.
func (c Config) AllowedHosts() []string {
	if len(c.Hosts) == 0 {
		return push.WebPushHosts()
	}
	return c.Hosts
}
