package push

import (
	"slices"
	"strings"
)

// A platform may have several push services, each with servers of its own. Workers have a
// route for each, so that one that is down, slow or over quota holds back nobody else's. A
// service is named PLATFORM:SERVICE, as webpush:mozilla; a platform with one alone is its own.

// Services returns the push services of the platform, in the order in which they are listed;
// none of one that is none of Platforms.
func Services(p Platform) []Platform {
	of := platformOf(p)
	switch {
	case of == nil:
		return nil
	case of.service == nil:
		return []Platform{p}
	}
	all := make([]Platform, len(of.services))
	for i, name := range of.services {
		all[i] = p + ":" + Platform(name)
	}
	return all
}

// Covers reports whether p is the push service, the platform that it is of, or "" for any.
func Covers(p, service Platform) bool {
	return p == "" || p == service || p == PlatformOf(service)
}

// PlatformOf returns the platform that the push service is of.
func PlatformOf(service Platform) Platform {
	name, _, _ := strings.Cut(string(service), ":")
	return Platform(name)
}

// Known reports whether p is one of Platforms, or of their push services.
func Known(p Platform) bool {
	return platformOf(p) != nil || slices.Contains(Services(PlatformOf(p)), p)
}

// Service returns the push service that takes what is for the target.
func (t Target) Service() Platform {
	if of := platformOf(t.Platform); of != nil && of.service != nil {
		return t.Platform + ":" + Platform(of.service(t))
	}
	return t.Platform
}
