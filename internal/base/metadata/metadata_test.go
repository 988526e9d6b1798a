package metadata

import (
	"errors"
	"net"
	"net/netip"
	"testing"
)

func TestHoldsReportsMetadataAddresses(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"169.254.169.254": true, "169.254.0.1": true, "fe80::1": true, "fe80::1%eth0": true, "::ffff:169.254.169.254": true, "64:ff9b::a9fe:a9fe": true,
		"fd00:ec2::254": true, "100.100.100.200": true, "168.63.129.16": true, "192.0.0.192": true, "0.0.0.0": true, "::": true, "224.0.0.1": true, "ff02::1": true,
		"127.0.0.1": false, "::1": false, "10.0.0.1": false, "192.168.1.1": false, "172.16.0.1": false, "fd00::1": false, "100.64.0.1": false, "8.8.8.8": false, "2001:4860:4860::8888": false, "64:ff9b::808:808": false,
	} {
		if got := Holds(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %t", address, got)
		}
	}
}

func TestDialerRefusesAddress(t *testing.T) {
	t.Parallel()
	d := net.Dialer{Control: Refuse}
	for _, address := range []string{"[::ffff:169.254.169.254]:80", "[fd00:ec2::254]:80", "[fe80::1%eth0]:80", "no address"} {
		if err := Refuse("tcp", address, nil); !errors.Is(err, ErrAddress) { // a machine may have no IPv6
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, address := range []string{"169.254.169.254:80", "0.0.0.0:80"} {
		if _, err := d.DialContext(t.Context(), "tcp", address); !errors.Is(err, ErrAddress) {
			t.Errorf("%s: %v", address, err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}
