package config

import (
	"time"

	"github.com/pushpace/pushpace/push"
)

// A Provider is an app's configuration of one platform.
type Provider struct {
	Platform push.Platform
	// Shared bounds all workers' pushes through it together.
	Shared
	// Timeout bounds one attempt.
	Timeout time.Duration
	// DryRun means that no push reaches a device.
	DryRun bool
	// Validate returns the faults of the provider's own keys.
	Validate func() error
	// Project returns the project that owns the quota. The func is nil if the app owns its quota.
	Project func() (string, error)
}

// ways maps each of push.Platforms to a function that returns an app's provider, or nil.
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

// Providers returns the app's providers, in the order of push.Platforms; none for a simulated app.
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

// Hosts returns the allowed hosts of Web Push endpoints, as push.HostAmong reads them.
func (a App) Hosts() []string {
	if a.WebPush == nil { // stand-ins accept any host
		return []string{push.AnyHost}
	}
	return a.WebPush.AllowedHosts()
}

// Platforms returns the platforms that the app sends to.
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
