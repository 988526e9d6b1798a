package webpush

import (
	"context"
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

// strangersBy returns the way to a stranger's host. The guard sees no address that a proxy
// dials: where the proxy applies, the host's addresses are looked up and checked here, and
// the proxy is asked for one of them in the place of the name.
func strangersBy(proxy *providers.Proxy, direct providers.DialFunc, port uint16, resolver *net.Resolver) providers.DialFunc {
	guard := ssrf.New(ssrf.WithPorts(port))
	byProxy := proxy.Dialing(direct)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if !proxy.Applies(address) {
			return direct(ctx, network, address)
		}
		ctx, cancel := context.WithTimeout(ctx, providers.DialTimeout) // of all addresses together
		defer cancel()
		host, number, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		ips, err := resolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return nil, err
		}
		for _, ip := range ips {
			family := "tcp6"
			if ip = ip.Unmap(); ip.Is4() {
				family = "tcp4"
			}
			at := net.JoinHostPort(ip.String(), number)
			if err = guard.Safe(family, at, nil); err != nil {
				continue
			}
			var conn net.Conn
			if conn, err = byProxy(ctx, family, at); err == nil {
				return conn, nil
			}
		}
		return nil, err
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
