package app

import (
	"context"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// A Platform has the program's differences between APNs, FCM and Web Push. A new platform needs
// an entry here, one in push and one in internal/config.
type Platform struct {
	Name push.Platform
	// Flags are the flags of send for targets of the platform.
	Flags []TargetFlag
	// open opens the sender of an app with the provider.
	open func(context.Context, config.App) (providers.Sender, error)
	// standIn starts a server in the provider's place, writes the sender's files into the folder,
	// and configures the app to use it. With an error it may return a server to close.
	standIn func(folder string, o StandInOptions, app *config.App) (StandIn, error)
	// Settings returns the keys of the app's provider, each with its value, by which a sender
	// reaches a stand-in.
	Settings func(config.App) [][2]string
	// render renders the provider's payload for a target.
	render func(config.App, *push.Notification, push.Target, time.Time) (Rendered, error)
}

// A TargetFlag is a flag of send for a target of a platform.
type TargetFlag struct {
	Name, Usage string
	// Target makes a target from the flag's value.
	Target func(string) (push.Target, error)
}

// A reloader is a sender that reports changed credentials.
type reloader interface{ OnReload(func(error)) }

// Platforms are all platforms.
var Platforms = []*Platform{&apnsPlatform, &fcmPlatform, &webPushPlatform}

// PlatformOf returns the platform of that name, or nil.
func PlatformOf(name push.Platform) *Platform {
	for _, p := range Platforms {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Flag returns the name of the platform's flag for of, such as "apns-port".
func (p *Platform) Flag(of string) string { return string(p.Name) + "-" + of }

// Possessive returns the title's possessive form: "APNs'", "FCM's".
func (p *Platform) Possessive() string {
	title := push.PlatformTitle(p.Name)
	if strings.HasSuffix(title, "s") {
		return title + "'"
	}
	return title + "'s"
}
