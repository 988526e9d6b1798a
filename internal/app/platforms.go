package app

import (
	"context"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// A Platform has what differs between APNs, FCM and Web Push in this program. A new platform needs
// an entry here, one in push and one in internal/config.
type Platform struct {
	Name push.Platform
	// Token is the help of the flag by which send takes a device.
	Token string
	// Target reads what the flag is given; nil for one that is given the token itself.
	Target func(string) (push.Target, error)
	// open opens the sender of an app that has the provider.
	open func(context.Context, config.App) (providers.Sender, error)
	// standIn starts a server in the provider's place, writes what a sender needs into the
	// folder, and has the app send to it. Beside an error it may return a server, to be
	// closed.
	standIn func(folder string, o StandInOptions, app *config.App) (StandIn, error)
	// Settings are the keys of the app's provider, each with its value, that have a sender
	// reach such a server.
	Settings func(config.App) [][2]string
	// render renders what the provider would get for a target.
	render func(config.App, *push.Notification, push.Target, time.Time) (Rendered, error)
}

// A reloader is a sender that tells of credentials that change.
type reloader interface{ OnReload(func(error)) }

// Platforms are all.
var Platforms = []*Platform{&apnsPlatform, &fcmPlatform, &webPushPlatform}

// PlatformOf returns the platform of that name, nil for none.
func PlatformOf(name push.Platform) *Platform {
	for _, p := range Platforms {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Flag is the name of the platform's flag, with what the flag is of.
func (p *Platform) Flag(of string) string { return string(p.Name) + "-" + of }

// Whose is the platform's title as whose something is: "APNs'", "FCM's".
func (p *Platform) Whose() string {
	title := push.PlatformTitle(p.Name)
	if strings.HasSuffix(title, "s") {
		return title + "'"
	}
	return title + "'s"
}
