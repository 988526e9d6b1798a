package webpush_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"

	"code.dny.dev/ssrf"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/providers/webpush"
)

// Behind a proxy the sender looks up and checks an unknown host's addresses. The proxy connects
// only to the checked address, and to no internal address.
func TestProxyConnectsToCheckedAddressOfStranger(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	direct := func(context.Context, string, string) (net.Conn, error) { return nil, errOutside }
	for name, c := range map[string]struct {
		lookups [][]string
		want    []string // of the proxy
		refused bool
	}{
		"public":               {[][]string{{public}}, []string{public + ":443"}, false},
		"public IPv6":          {[][]string{{"2606:4700::1111"}}, []string{"[2606:4700::1111]:443"}, false},
		"loopback":             {[][]string{{"127.0.0.1"}}, nil, true},
		"private":              {[][]string{{"10.1.2.3"}, {public}}, nil, true},
		"metadata":             {[][]string{{"169.254.169.254"}}, nil, true},
		"private IPv6":         {[][]string{{"fd00::1"}}, nil, true},
		"mapped loopback":      {[][]string{{"::ffff:127.0.0.1"}}, nil, true},
		"private, then public": {[][]string{{"10.1.2.3", public}}, []string{public + ":443"}, false},
		"public, then changed": {[][]string{{public}, {"127.0.0.1"}}, []string{public + ":443"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			server, err := standin.NewProxy(listener.Addr().String(), nil)
			must(t, err)
			t.Cleanup(func() { _ = server.Close() })
			t.Setenv("HTTPS_PROXY", "http://"+server.Address())
			t.Setenv("NO_PROXY", "push.example.org")
			proxy, err := providers.EnvironmentProxy()
			must(t, err)
			names := &nameServer{names: map[string][][]string{"push.example.com": c.lookups}}
			dial := webpush.StrangerDialer(proxy, direct, 443, names.resolver())
			conn, err := dial(t.Context(), "tcp", "push.example.com:443")
			if err == nil {
				_ = conn.Close()
			}
			if errors.Is(err, ssrf.ErrProhibitedIP) != c.refused || (err == nil) == c.refused {
				t.Errorf("%v", err)
			}
			if got := server.Targets(); !slices.Equal(got, c.want) {
				t.Errorf("the proxy was asked for %q, want %q", got, c.want)
			}
			if _, err := dial(t.Context(), "tcp", "push.example.org:443"); !errors.Is(err, errOutside) {
				t.Errorf("in NO_PROXY: %v", err)
			}
			if _, err := dial(t.Context(), "tcp", "push.example.com:8443"); err == nil {
				t.Error("another port is dialled")
			}
		})
	}
}
