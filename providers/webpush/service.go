package webpush

import "strings"

// A Service is who runs a push service.
type Service string

// The services that are known by their hosts, and all others.
const (
	Google  Service = "google"
	Mozilla Service = "mozilla"
	Apple   Service = "apple"
	Windows Service = "windows"
	Other   Service = "other"
)

// known are the known services with their hosts, as Config.Hosts has them.
var known = []struct {
	service Service
	hosts   hosts
}{
	{Google, hosts{"fcm.googleapis.com", "jmt17.google.com", "android.googleapis.com"}},
	{Mozilla, hosts{"updates.push.services.mozilla.com"}},
	{Apple, hosts{"*.push.apple.com"}},
	{Windows, hosts{"*.notify.windows.com"}},
}

// ServiceOf returns whose host that is, Other for one that is not known. The host is in
// lower case, without a port or a final dot.
func ServiceOf(host string) Service {
	for _, k := range known {
		if k.hosts.allow(host) {
			return k.service
		}
	}
	return Other
}

// DefaultHosts returns the hosts of the known push services.
func DefaultHosts() []string {
	var all []string
	for _, k := range known {
		all = append(all, k.hosts...)
	}
	return all
}

// hosts are those that may be sent to: names, "*." and a name for all that is below it,
// or anyHost alone.
type hosts []string

// anyHost stands for each public host.
const anyHost = "*"

// allow reports whether one of them stands for the name, which is in lower case.
func (h hosts) allow(name string) bool {
	for _, pattern := range h {
		if pattern == anyHost || pattern == name {
			return true
		}
		if suffix, below := strings.CutPrefix(pattern, anyHost); below && len(name) > len(suffix) && strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// isHostName reports whether name is one of a host in lower case: two labels or more, the
// last of which begins with a letter, as no address's does.
func isHostName(name string) bool {
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	last := labels[len(labels)-1]
	return len(labels) > 1 && len(name) <= 253 && last[0] >= 'a' && last[0] <= 'z'
}
