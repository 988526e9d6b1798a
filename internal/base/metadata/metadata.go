// Package metadata recognizes the addresses at which a cloud's machines get their own credentials,
// so that nothing is posted there.
package metadata

import (
	"errors"
	"net/netip"
	"syscall"
)

// ErrAddress refuses an address that Holds reports.
var ErrAddress = errors.New("the address is link-local or a cloud's metadata service")

// services are not link-local: AWS over IPv6, Alibaba, Azure and Oracle.
var services = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("192.0.0.192"),
}

// nat64 has IPv4 addresses in its last 32 bits. Source: RFC 6052.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// Holds reports whether the address is link-local or a metadata service's, also as an IPv6 address
// that stands for an IPv4 one. Addresses that are not a host's count too.
func Holds(a netip.Addr) bool {
	a = a.WithZone("").Unmap()
	if nat64.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	if a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() {
		return true
	}
	for _, s := range services {
		if a == s {
			return true
		}
	}
	return false
}

// Refuse is the Control of a net.Dialer. It sees the resolved address that is dialled.
func Refuse(_, address string, _ syscall.RawConn) error {
	if a, err := netip.ParseAddrPort(address); err != nil || Holds(a.Addr()) {
		return ErrAddress
	}
	return nil
}
