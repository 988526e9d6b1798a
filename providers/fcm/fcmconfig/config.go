// Package fcmconfig has the configuration of FCM, without the SDK that package fcm links.
package fcmconfig

import (
	"time"

	"github.com/pushpace/pushpace/internal/base/fielderrors"
	"github.com/pushpace/pushpace/providers/fcm/internal/wire"
)

// DefaultTimeout is how long one attempt may take when Config.Timeout is zero.
// Google asks for at least 10 s (docs: "Best practices when sending FCM
// messages at scale").
const DefaultTimeout = 10 * time.Second

// MaxTimeout is the longest Config.Timeout.
const MaxTimeout = time.Minute

// Config describes how to reach FCM on behalf of one Firebase project.
type Config struct {
	// The JSON key of a Google service account.
	//
	// Access tokens come from its token_uri.
	CredentialsFile string `yaml:"credentials_file"`
	// The Firebase project; the credentials' by default.
	ProjectID string `yaml:"project_id"`
	// Replaces Google's: https, without the version.
	Endpoint string `yaml:"endpoint" kind:"URL"`
	// The trusted authorities, instead of the system's.
	//
	// They apply to the endpoint and to the credentials' token_uri.
	RootCAFile string `yaml:"root_ca_file"`
	// The longest time for an attempt, including the fetch of an access token.
	//
	// 0 means DefaultTimeout; at most MaxTimeout.
	Timeout time.Duration `yaml:"timeout" default:"10s" range:"1ms..1m"`
	// FCM checks the messages, and sends none.
	//
	// It is the API's validate_only. A message that FCM accepts counts as delivered, with the
	// reason providers.DryRun.
	DryRun bool `yaml:"dry_run" default:"false"`
}

// Validate returns every fault of the configuration, each with its key. It
// reads no file.
func (c Config) Validate() error {
	var all fielderrors.Faults
	if c.CredentialsFile == "" {
		all.Add("credentials_file", "is missing: name the JSON key file of a service account that may send messages")
	}
	if c.ProjectID != "" && !wire.IsProject(c.ProjectID) {
		all.Add("project_id", "%q is not a project ID: it has lower-case letters, digits and hyphens", c.ProjectID)
	}
	if c.Endpoint != "" {
		if err := wire.CheckURL(c.Endpoint); err != nil {
			all.Add("endpoint", "%v", err)
		}
	}
	if c.Timeout < 0 || c.Timeout > MaxTimeout {
		all.Add("timeout", "%v is not between 0 and %v", c.Timeout, MaxTimeout)
	}
	return all.Err()
}

// Project returns the Firebase project: ProjectID, or without one the credentials' project.
func (c Config) Project() (string, error) {
	if c.ProjectID != "" {
		return c.ProjectID, nil
	}
	_, named, err := wire.ReadCredentials(c.CredentialsFile)
	return named, err
}
