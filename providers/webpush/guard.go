package webpush

import (
	"errors"
	"net"

	"code.dny.dev/ssrf"

	"github.com/pushpace/pushpace/providers"
)

// httpsPort is the only one that is dialled.
const httpsPort = 443

// guarded returns a dialer for a stranger's URL: it connects to public addresses at the
// port alone. It looks at each address that a name has when it is dialled, so that it does
// not matter what the name had before.
func guarded(port uint16) *net.Dialer {
	return &net.Dialer{
		Timeout: providers.DialTimeout, KeepAlive: providers.KeepAlive,
		Control: ssrf.New(ssrf.WithPorts(port)).Safe,
	}
}

// isGuarded reports whether err says that the guard kept an address from being dialled.
func isGuarded(err error) bool {
	for _, refusal := range []error{ssrf.ErrProhibitedIP, ssrf.ErrProhibitedPort, ssrf.ErrProhibitedNetwork, ssrf.ErrInvalidHostPort} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}
