package webpush_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"code.dny.dev/ssrf"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/providers/webpush"
	"github.com/pushpace/pushpace/providers/webpush/webpushtest"
	"github.com/pushpace/pushpace/push"
)

// An inside is a service in the worker's own network, on one port of the loopback's addresses. No
// push may reach it.
type inside struct {
	port    int
	reached atomic.Int64
}

func newInside(t *testing.T) *inside {
	t.Helper()
	in := &inside{}
	accept := func(l net.Listener) {
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				in.reached.Add(1)
				_ = c.Close()
			}
		}()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	in.port = l.Addr().(*net.TCPAddr).Port
	accept(l)
	if l, err := net.Listen("tcp", net.JoinHostPort("::1", strconv.Itoa(in.port))); err == nil { // if the machine has IPv6
		accept(l)
	}
	return in
}

// errOutside ends a dial to an address that the guard has accepted: no test connects there.
var errOutside = errors.New("an address outside")

// dialing returns a dial function that uses the port of in as 443, so that only the guard
// protects it. It counts the addresses that the guard accepts.
func (in *inside) dialing(guard *net.Dialer, names *nameServer, passed *atomic.Int64) providers.DialFunc {
	d := *guard
	d.Resolver = names.resolver()
	check := d.Control
	d.Control = func(network, address string, c syscall.RawConn) error {
		if check != nil {
			if err := check(network, address, c); err != nil {
				return err
			}
		}
		passed.Add(1)
		if host, _, err := net.SplitHostPort(address); err == nil && net.ParseIP(host).IsLoopback() {
			return nil
		}
		return errOutside
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil || port != "443" {
			return nil, errors.New("a port other than 443 is dialled")
		}
		return d.DialContext(ctx, network, net.JoinHostPort(host, strconv.Itoa(in.port)))
	}
}

const public = "93.184.215.14"

var guardCases = []struct {
	name     string
	endpoint string
	// lookups are the addresses of the endpoint's host, for each lookup.
	lookups [][]string
	// passes is the number of public addresses dialled in two pushes.
	passes int64
}{
	{"a loopback address", "https://127.0.0.1/x", nil, 0},
	{"in hexadecimal", "https://0x7f000001/x", nil, 0},
	{"::1", "https://[::1]/x", nil, 0},
	{"::ffff:127.0.0.1", "https://[::ffff:127.0.0.1]/x", nil, 0},
	{"fe80::1", "https://[fe80::1%25lo]/x", nil, 0},
	{"localhost", "https://localhost/x", nil, 0},
	{"port 8443", "https://push.example.com:8443/x", [][]string{{"127.0.0.1"}}, 0},
	{"a user", "https://fcm.googleapis.com@127.0.0.1/x", nil, 0},
	{"a path that looks like a host", "https://10.0.0.1/x.google.com/", nil, 0},
	{"http", "http://push.example.com/x", [][]string{{"127.0.0.1"}}, 0},
	{"a name at the loopback", "https://push.example.com/x", [][]string{{"127.0.0.1"}}, 0},
	{"a name at ::1", "https://push.example.com/x", [][]string{{"::1"}}, 0},
	{"a name at a mapped loopback", "https://push.example.com/x", [][]string{{"::ffff:127.0.0.1"}}, 0},
	{"a name at 10/8", "https://push.example.com/x", [][]string{{"10.1.2.3"}}, 0},
	{"a name at 169.254.169.254", "https://push.example.com/x", [][]string{{"169.254.169.254"}}, 0},
	{"a name at NAT64's loopback", "https://push.example.com/x", [][]string{{"64:ff9b::7f00:1"}}, 0},
	{"a name at fe80::", "https://push.example.com/x", [][]string{{"fe80::1"}}, 0},
	{"a public and a private address", "https://push.example.com/x", [][]string{{public, "127.0.0.1"}}, 2},
	{"a private and a public address", "https://push.example.com/x", [][]string{{"127.0.0.1", public}}, 2},
	{"a name that changes", "https://push.example.com/x", [][]string{{public}, {"127.0.0.1"}}, 1},
	{"a known service's name with a final point", "https://fcm.googleapis.com./x", [][]string{{public}}, 2},
	{"a known service's name at the loopback", "https://fcm.googleapis.com/x", [][]string{{"127.0.0.1"}}, 0},
}

// An unknown host's URL never leads to an internal address.
func TestUnknownHostReachesNoInternalAddress(t *testing.T) {
	t.Parallel()
	_, cfg := start(t, webpushtest.Options{}) // only for its key
	cfg.Endpoint, cfg.RootCAFile, cfg.Hosts = "", "", []string{"*"}
	keys := target(push.WebPushGoogle, "device").Keys
	for _, c := range guardCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := newInside(t)
			names := &nameServer{names: map[string][][]string{"push.example.com": c.lookups, "fcm.googleapis.com": c.lookups}}
			var passed atomic.Int64
			sender, err := webpush.NewDialing(cfg, in.dialing(webpush.GuardedDialer(uint16(in.port)), names, &passed))
			must(t, err)
			defer func() { _ = sender.Close() }()
			for range 2 {
				o := sender.Send(t.Context(), note(), push.Target{Platform: push.PlatformWebPush, Token: c.endpoint, Keys: keys}, providers.Departure{})
				if o.Kind == providers.Delivered || c.passes == 0 && o.Reason != webpush.EndpointRefused || o.Err == nil || strings.Contains(o.Err.Error(), "/x") {
					t.Errorf("%v %s (%v)", o.Kind, o.Reason, o.Err)
				}
			}
			if n := in.reached.Load(); n != 0 {
				t.Errorf("it was reached %d times", n)
			}
			if n := passed.Load(); n != c.passes {
				t.Errorf("%d addresses were dialled, want %d", n, c.passes)
			}
		})
	}
}

// A redirect is an answer, and is not followed.
func TestRedirectIsNotFollowed(t *testing.T) {
	in := newInside(t)
	h := newHostileServer(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://127.0.0.1:"+strconv.Itoa(in.port)+"/", http.StatusFound)
	})
	for _, endpoint := range []string{"https://push.example.com/x", "https://fcm.googleapis.com/x"} {
		want(t, h.sender.Send(t.Context(), note(), webpushtest.Subscription(endpoint), providers.Departure{}), providers.Rejected, webpush.Redirected, providers.ConcernsToken)
	}
	if n := in.reached.Load(); n != 0 {
		t.Errorf("it was reached %d times", n)
	}
}

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
