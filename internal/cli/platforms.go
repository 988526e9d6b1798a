package cli

import (
	"context"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// A platform is what the program does that differs by platform: another one is an entry
// here, one in push and one in internal/config.
type platform struct {
	name push.Platform
	// token is the help of the flag by which send takes a device.
	token string
	// target reads what the flag is given; nil for one that is given the token itself.
	target func(string) (push.Target, error)
	// open opens the sender of an app that has the provider.
	open func(context.Context, config.App) (providers.Sender, error)
	// standIn starts a server in the provider's place, writes what a sender needs into the
	// folder, and has the app send to it. Beside an error it may return a server, to be
	// closed.
	standIn func(folder string, o standInOptions, app *config.App) (standInServer, error)
	// settings are the keys of the app's provider, each with its value, that have a sender
	// reach such a server.
	settings func(config.App) [][2]string
	// render renders what the provider would get for a target.
	render func(config.App, *push.Notification, push.Target, time.Time) (renderedTarget, error)
	// effective writes what is in force of the app's provider.
	effective func(config.App, *effectiveApp)
}

// A reloader is a sender that tells of credentials that change.
type reloader interface{ OnReload(func(error)) }

var platforms = []*platform{&apnsPlatform, &fcmPlatform, &webPushPlatform}

// platformOf returns the platform of that name, nil for none.
func platformOf(name push.Platform) *platform {
	for _, p := range platforms {
		if p.name == name {
			return p
		}
	}
	return nil
}

// flag is the name of the platform's flag, with what the flag is of.
func (p *platform) flag(of string) string { return string(p.name) + "-" + of }

// whose is the platform's title as whose something is: "APNs'", "FCM's".
func (p *platform) whose() string {
	title := push.PlatformTitle(p.name)
	if strings.HasSuffix(title, "s") {
		return title + "'"
	}
	return title + "'s"
}
