package cli

import (
	"cmp"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/webpush"
	"github.com/pushpace/pushpace/push"
)

// effectives write what is in force of an app's provider.
var effectives = map[push.Platform]func(config.App, *effectiveApp){
	push.APNs: func(a config.App, e *effectiveApp) {
		c := a.APNs
		e.APNs = &effectiveAPNs{c.Topic, cmp.Or(c.Environment, apns.Production), c.Endpoint, sharedOf(c.Shared)}
	},
	push.FCM: func(a config.App, e *effectiveApp) {
		c := a.FCM
		e.FCM = &effectiveFCM{c.ProjectID, c.Endpoint, sharedOf(c.Shared)}
	},
	push.PlatformWebPush: func(a config.App, e *effectiveApp) {
		c := a.WebPush
		e.WebPush = &effectiveWebPush{c.Subject, publicKeyOf(c.PrivateKeyFile), c.AllowedHosts(), c.Endpoint, sharedOf(c.Shared)}
	},
}

type effectiveAPNs struct {
	Topic           string `json:"topic"`
	Environment     string `json:"environment"`
	Endpoint        string `json:"endpoint,omitempty"`
	effectiveShared `yaml:",inline"`
}

type effectiveFCM struct {
	ProjectID       string `json:"project_id,omitempty"`
	Endpoint        string `json:"endpoint,omitempty"`
	effectiveShared `yaml:",inline"`
}

type effectiveWebPush struct {
	Subject string `json:"subject"`
	// PublicKey is what the site subscribes with; empty where the file cannot be read.
	PublicKey       string   `json:"public_key,omitempty"`
	Hosts           []string `json:"hosts"`
	Endpoint        string   `json:"endpoint,omitempty"`
	effectiveShared `yaml:",inline"`
}

func publicKeyOf(file string) string {
	key, err := webpush.ReadKey(file)
	if err != nil {
		return ""
	}
	return key.Public()
}
