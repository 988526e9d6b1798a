package config

import (
	"time"

	"github.com/pushpace/pushpace/push"
)

// A Provider is an app's way to one platform.
type Provider struct {
	Platform push.Platform
	// Shared bounds what all workers together do through it.
	Shared
	// Timeout bounds one attempt.
	Timeout time.Duration
	// DryRun says that it sends to no device.
	DryRun bool
	// Validate reports what is wrong with the keys that are the provider's own.
	Validate func() error
	// Project returns whose the quota is; nil where it is the app's.
	Project func() (string, error)
}

// ways are one for each of push.Platforms: the provider of an app, nil where it has none.
var ways = map[push.Platform]func(App) *Provider{
	push.APNs: func(a App) *Provider {
		if a.APNs == nil {
			return nil
		}
		return &Provider{Shared: a.APNs.Shared, Timeout: a.APNs.Timeout, DryRun: a.APNs.DryRun, Validate: a.APNs.Validate}
	},
	push.FCM: func(a App) *Provider {
		if a.FCM == nil {
			return nil
		}
		return &Provider{Shared: a.FCM.Shared, Timeout: a.FCM.Timeout, DryRun: a.FCM.DryRun, Validate: a.FCM.Validate, Project: a.FCM.Project}
	},
	push.PlatformWebPush: func(a App) *Provider {
		if a.WebPush == nil {
			return nil
		}
		return &Provider{Shared: a.WebPush.Shared, Timeout: a.WebPush.Timeout, DryRun: a.WebPush.DryRun, Validate: a.WebPush.Validate}
	},
}

// Providers are those that the app names, in the order in which they are listed; none of
// one that is simulated.
func (a App) Providers() []Provider {
	var all []Provider
	for _, platform := range push.Platforms() {
		if p := ways[platform](a); p != nil {
			p.Platform = platform
			all = append(all, *p)
		}
	}
	return all
}

// Hosts are those that endpoints of Web Push may be at, as push.HostAmong reads them.
func (a App) Hosts() []string {
	if a.WebPush == nil { // stand-ins take any, where there are some
		return []string{push.AnyHost}
	}
	return a.WebPush.AllowedHosts()
}

// Platforms are those that the app sends to.
func (a App) Platforms() []push.Platform {
	if a.Simulated {
		return push.Platforms()
	}
	var platforms []push.Platform
	for _, p := range a.Providers() {
		platforms = append(platforms, p.Platform)
	}
	return platforms
}
