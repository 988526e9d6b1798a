// Package fcmconfig says how to reach FCM. It links no SDK, as package fcm does.
package fcmconfig

import (
	"time"

	"github.com/pushpace/pushpace/internal/base/faults"
	"github.com/pushpace/pushpace/providers/fcm/internal/wire"
)

// DefaultTimeout is how long one attempt may take when Config.Timeout is zero.
// Google asks for at least 10 s (docs: "Best practices when sending FCM
// messages at scale").
const DefaultTimeout = 10 * time.Second

// MaxTimeout is the longest Config.Timeout.
const MaxTimeout = time.Minute

// Config says how to reach FCM on behalf of one Firebase project.
type Config struct {
	// CredentialsFile is a service account's key in Google's JSON format. Its
	// token_uri is where access tokens come from.
	CredentialsFile string `yaml:"credentials_file"`
	// ProjectID is the Firebase project. Empty means the one that the
	// credentials name.
	ProjectID string `yaml:"project_id"`
	// Endpoint is the https URL that takes the place of
	// https://fcm.googleapis.com, without the version.
	Endpoint string `yaml:"endpoint"`
	// RootCAFile holds the PEM certificates to trust instead of the system's,
	// for the endpoint and for the credentials' token_uri.
	RootCAFile string `yaml:"root_ca_file"`
	// Timeout bounds one attempt, the fetch of an access token included. Zero
	// means DefaultTimeout; at most MaxTimeout.
	Timeout time.Duration `yaml:"timeout"`
	// DryRun has FCM check the messages and send them to no device (the API's
	// validate_only). What FCM takes is delivered, with the reason
	// providers.DryRun.
	DryRun bool `yaml:"dry_run"`
}

// Validate returns every fault of the configuration, each with its key. It
// reads no file.
func (c Config) Validate() error {
	var all faults.Faults
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

// Project returns the Firebase project, which the credentials name where ProjectID does
// not.
func (c Config) Project() (string, error) {
	if c.ProjectID != "" {
		return c.ProjectID, nil
	}
	_, named, err := wire.ReadCredentials(c.CredentialsFile)
	return named, err
}
