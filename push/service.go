package push

import (
	"slices"
	"strings"
)

// A platform may have several push services, each with its own servers. Workers have a route for
// each, so that a service that is down, slow or over quota delays no other. A service is named
// PLATFORM:SERVICE; a platform with a single service has the same name as the service.
//
// FCM has one route for tokens and one for FIDs: if many registration tokens of an app are dead, only
// targets with a token wait. FCM's delays close both routes, as they share a project and its quota.

// FCMFID is FCM for targets with a FID.
const FCMFID Platform = "fcm:fid"

// The push services of browsers: the known services, and all other services.
const (
	WebPushGoogle  Platform = "webpush:google"
	WebPushMozilla Platform = "webpush:mozilla"
	WebPushApple   Platform = "webpush:apple"
	WebPushWindows Platform = "webpush:windows"
	WebPushOther   Platform = "webpush:other"
)

// webPushServices are all push services of browsers, with their hosts, as HostAmong reads them.
var webPushServices = []struct {
	name  Platform
	hosts []string
}{
	{WebPushGoogle, []string{"fcm.googleapis.com", "jmt17.google.com", "android.googleapis.com"}},
	{WebPushMozilla, []string{"updates.push.services.mozilla.com"}},
	{WebPushApple, []string{"*.push.apple.com"}},
	{WebPushWindows, []string{"*.notify.windows.com"}},
	{WebPushOther, nil},
}

// WebPushHosts returns the hosts of the known push services of browsers, as HostAmong reads
// them. The slice is the caller's.
func WebPushHosts() (all []string) {
	for _, s := range webPushServices {
		all = append(all, s.hosts...)
	}
	return all
}

// RemovedHost is the host of an ended subscription's endpoint in Edge on Android.
const RemovedHost = "permanently-removed.invalid"

// AnyHost is the pattern of HostAmong that matches every host.
const AnyHost = "*"

// HostAmong reports whether the host, in lower case and without a port or a final dot, matches
// one of the patterns: a name, "*." and a name for all subdomains, or AnyHost.
func HostAmong(hosts []string, host string) bool {
	return slices.ContainsFunc(hosts, func(pattern string) bool {
		below, star := strings.CutPrefix(pattern, "*")
		return pattern == AnyHost || pattern == host || star && len(host) > len(below) && strings.HasSuffix(host, below)
	})
}

// Service returns the target's push service.
func (t Target) Service() Platform {
	switch {
	case t.Platform == FCM && t.FID != "":
		return FCMFID
	case t.Platform != PlatformWebPush:
		return t.Platform
	}
	endpoint, err := Endpoint(t.Token)
	if err != nil {
		return WebPushOther
	}
	for _, s := range webPushServices {
		if HostAmong(s.hosts, endpoint.Host) {
			return s.name
		}
	}
	return WebPushOther
}

// Services returns the push services of the platform, in the order in which they are listed;
// nil for an unknown platform.
func Services(p Platform) (all []Platform) {
	switch {
	case platformOf(p) == nil:
		return nil
	case p == FCM:
		return []Platform{FCM, FCMFID}
	case p != PlatformWebPush:
		return []Platform{p}
	}
	for _, s := range webPushServices {
		all = append(all, s.name)
	}
	return all
}

// Covers reports whether p is the push service, its platform, or "" for any.
func Covers(p, service Platform) bool {
	return p == "" || p == service || p == PlatformOf(service)
}

// PlatformOf returns the platform of the push service.
func PlatformOf(service Platform) Platform {
	name, _, _ := strings.Cut(string(service), ":")
	return Platform(name)
}

// Known reports whether p is one of PlatformsAndServices.
func Known(p Platform) bool { return slices.Contains(PlatformsAndServices(), p) }

// PlatformsAndServices returns Platforms, each followed by its push services where it has
// several. The slice is the caller's.
func PlatformsAndServices() (all []Platform) {
	for _, p := range Platforms() {
		all = append(all, p)
		for _, s := range Services(p) {
			if s != p {
				all = append(all, s)
			}
		}
	}
	return all
}
