// Package metadata recognizes the addresses from which a cloud's machines get their credentials, so
// that pushpace sends no request to them.
package metadata

import (
	"errors"
	"net/netip"
	"syscall"
)

// ErrAddress is the error for an address that Holds reports.
var ErrAddress = errors.New("the address is link-local or a cloud's metadata service")

// services are the metadata services that are not link-local: AWS over IPv6, Alibaba, Azure, Oracle.
var services = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("192.0.0.192"),
}

// nat64 is the prefix of addresses with an IPv4 address in their last 32 bits. Source: RFC 6052.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// Holds reports whether the address is link-local, a metadata service's, or no host's, even as an
// IPv4 address written in IPv6.
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

// Refuse is a net.Dialer's Control function. Its address is the resolved one.
func Refuse(_, address string, _ syscall.RawConn) error {
	if a, err := netip.ParseAddrPort(address); err != nil || Holds(a.Addr()) {
		return ErrAddress
	}
	return nil
}
