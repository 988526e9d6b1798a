package webpush

import (
	"context"
	"errors"
	"net"

	"code.dny.dev/ssrf"

	"github.com/pushpace/pushpace/providers"
)

// httpsPort is the only port dialled.
const httpsPort = 443

// guardedDialer returns a dialer for unknown hosts: it connects only to public addresses, at port.
// It checks the address when it dials, so that a changed DNS answer cannot bypass the check.
func guardedDialer(port uint16) *net.Dialer {
	return &net.Dialer{
		Timeout: providers.DialTimeout, KeepAlive: providers.KeepAlive,
		Control: ssrf.New(ssrf.WithPorts(port)).Safe,
	}
}

// strangerDialer returns the dial function for unknown hosts. The guard cannot check addresses that
// a proxy dials. If a proxy applies, this function looks up and checks the host's addresses, and
// sends the proxy an address instead of the name.
func strangerDialer(proxy *providers.Proxy, direct providers.DialFunc, port uint16, resolver *net.Resolver) providers.DialFunc {
	guard := ssrf.New(ssrf.WithPorts(port))
	byProxy := proxy.Dialing(direct)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if !proxy.Applies(address) {
			return direct(ctx, network, address)
		}
		ctx, cancel := context.WithTimeout(ctx, providers.DialTimeout) // for all addresses together
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

// isGuardError reports whether err means that the guard refused an address.
func isGuardError(err error) bool {
	for _, refusal := range []error{ssrf.ErrProhibitedIP, ssrf.ErrProhibitedPort, ssrf.ErrProhibitedNetwork, ssrf.ErrInvalidHostPort} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}
