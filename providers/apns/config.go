package apns

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/sideshow/apns2"

	"github.com/pushpace/pushpace/internal/base/fielderrors"
	"github.com/pushpace/pushpace/internal/base/names"
	"github.com/pushpace/pushpace/push"
)

// The environments.
const (
	Production = "production"
	Sandbox    = "sandbox"
)

// DefaultTimeout bounds one attempt when Config.Timeout is 0.
const DefaultTimeout = 10 * time.Second

// A Config describes how one app reaches APNs. It authenticates either with a key (KeyFile, KeyID,
// TeamID) or with a certificate (CertificateFile).
type Config struct {
	// The app's bundle ID, without the team's ID and without a push type's suffix such as `.voip`,
	// which pushpace adds. A bundle ID that itself ends so is refused.
	Topic string `yaml:"topic"`
	// Apple's servers for the App Store, or for development.
	//
	// Empty means Production.
	Environment string `yaml:"environment" default:"production" oneof:"production sandbox"`

	// Apple's `.p8` key; with a certificate the PEM key, if `certificate_file` does not hold it.
	KeyFile string `yaml:"key_file"`
	// The key's ID, 10 characters.
	KeyID string `yaml:"key_id"`
	// The team's ID, 10 characters.
	TeamID string `yaml:"team_id"`

	// A certificate (`.p12`, PEM or DER) instead of a key.
	//
	// The file may also hold the issuers' certificates, in any order.
	CertificateFile string `yaml:"certificate_file"`
	// The password of the certificate's key.
	PasswordFile string `yaml:"password_file"`

	// Replaces Apple's: https, host and port.
	Endpoint string `yaml:"endpoint" kind:"URL"`
	// The trusted authorities, instead of the system's.
	RootCAFile string `yaml:"root_ca_file"`
	// The longest time for an attempt, including the connection setup.
	//
	// 0 means DefaultTimeout.
	Timeout time.Duration `yaml:"timeout" default:"10s" range:"1ms..10m"`
	// Does everything except to connect and send.
	//
	// A notification that would be sent is delivered, with the reason providers.DryRun.
	DryRun bool `yaml:"dry_run" default:"false"`
}

// Validate returns every fault of the configuration, joined, each with its key.
// It opens no file.
func (c Config) Validate() error {
	var all fielderrors.Faults
	if problem := c.topicFault(); problem != "" {
		all.Add("topic", "%s", problem)
	}
	switch c.Environment {
	case "", Production, Sandbox:
	default:
		all.Add("environment", "%q is neither %s nor %s", c.Environment, Production, Sandbox)
	}
	switch {
	case c.CertificateFile != "":
		const both = "belongs to a .p8 key, but certificate_file is set: use one of them"
		if c.KeyID != "" {
			all.Add("key_id", both)
		}
		if c.TeamID != "" {
			all.Add("team_id", both)
		}
	case c.KeyFile == "" && c.KeyID == "" && c.TeamID == "":
		all.Add("key_file", "must be set, with key_id and team_id, unless certificate_file is set")
	default:
		if c.KeyFile == "" {
			all.Add("key_file", "must be the .p8 file of the key")
		}
		if !appleID.MatchString(c.KeyID) {
			all.Add("key_id", "must be the 10 characters that Apple shows for the key")
		}
		if !appleID.MatchString(c.TeamID) {
			all.Add("team_id", "must be the 10 characters that Apple shows for the team")
		}
		if c.PasswordFile != "" {
			all.Add("password_file", "is for certificate_file: a .p8 key has no password")
		}
	}
	if c.Endpoint != "" {
		u, err := url.Parse(c.Endpoint)
		if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
			(u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.Fragment != "" {
			all.Add("endpoint", "must be https://host or https://host:port")
		}
	}
	if c.Timeout < 0 {
		all.Add("timeout", "%v is negative", c.Timeout)
	}
	return all.Err()
}

var (
	// appleID matches Apple's ID of a key or a team.
	appleID = regexp.MustCompile(`^[A-Za-z0-9]{10}$`)
	// bundleID matches an app's bundle ID. The topic becomes a header's value.
	bundleID = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
	// teamPrefix matches ten capitals or digits before a bundle ID, where entitlements have the
	// team's ID. Nearly every team's ID has a digit.
	teamPrefix = regexp.MustCompile(`^[A-Z0-9]{10}\.`)
)

// topicFault returns the problem of the topic, "" without one.
func (c Config) topicFault() string {
	const want = "the app's bundle ID, such as com.example.shop"
	ends := names.Ends(c.Topic)
	switch {
	case c.Topic == "":
		return "must be " + want
	case ends != "":
		return ends
	case !bundleID.MatchString(c.Topic):
		return "must be " + want + ": letters, digits, hyphens and dots"
	}
	topic, suffixes := c.Topic, ""
	for {
		bare, suffix := push.BareTopic(topic)
		if suffix == "" || bare == "" {
			break
		}
		topic, suffixes = bare, suffix+suffixes
	}
	prefix := teamPrefix.FindString(topic)
	own := len(c.TeamID) == 10 && strings.HasPrefix(strings.ToUpper(topic), strings.ToUpper(c.TeamID)+".")
	if own {
		prefix = topic[:11]
	} else if !strings.ContainsAny(prefix, "0123456789") {
		prefix = ""
	}
	topic = topic[len(prefix):]
	switch {
	case suffixes != "":
		return fmt.Sprintf("ends in %s, which pushpace adds by the push type: want %s", suffixes, topic)
	case prefix != "":
		return fmt.Sprintf("begins with a team's ID, which is no part of a topic: want %s", topic)
	}
	return ""
}

// host returns the URL that requests start with, without a final slash.
func (c Config) host() string {
	switch {
	case c.Endpoint != "":
		u, _ := url.Parse(c.Endpoint) // Validate has parsed it
		return u.Scheme + "://" + u.Host
	case c.Environment == Sandbox:
		return apns2.HostDevelopment
	}
	return apns2.HostProduction
}

// timeout returns the bound of one attempt.
func (c Config) timeout() time.Duration {
	if c.Timeout == 0 {
		return DefaultTimeout
	}
	return c.Timeout
}
