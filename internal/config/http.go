package config

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/base/suggest"
)

// HTTP configures the HTTP API.
type HTTP struct {
	// Serves the API and the console; off by default. `:8080` is the loopback; other addresses need
	// tokens.
	Listen Listen    `yaml:"listen"`
	TLS    ServerTLS `yaml:"tls"`
	// Tokens are the API's users. Without tokens, everyone on this machine is a user, and the API
	// listens on the loopback alone.
	Tokens  []Token `yaml:"tokens" reload:"at once"`
	Console Console `yaml:"console"`
	// The largest request.
	MaxBody int `yaml:"max_body" default:"4194304" range:"65536..67108864" kind:"number of bytes"`
	// The most notifications that wait or are dead letters, measured about once a second: beyond, the
	// API takes no more. A warning says if the dead letters of all apps may reach it.
	MaxQueue int `yaml:"max_queue" default:"1000000" range:"1..1000000000"`
	// The most requests that are answered, and bodies that arrive, at once. More get 503, as do
	// bodies that together exceed 32 MiB, or `max_body` if that is more. The bodies of one API
	// token get half of both.
	MaxRequests int `yaml:"max_requests" default:"512" range:"1..100000"`
	// The longest time for a request to arrive.
	ReadTimeout time.Duration `yaml:"read_timeout" default:"10s" range:"100ms..10m"`
	// The longest time from a request's arrival to the answer.
	Timeout time.Duration `yaml:"timeout" default:"10s" range:"100ms..10m"`
}

// ServerTLS are the files of a server's certificate, in PEM. A change of the files takes effect
// within seconds, without a reload.
type ServerTLS struct {
	// The server's certificate, with its chain.
	CertFile string `yaml:"cert_file"`
	// The certificate's key.
	KeyFile string `yaml:"key_file"`
}

// Enabled reports whether there is a certificate.
func (t ServerTLS) Enabled() bool { return t.CertFile != "" }

// Console says whether there are operators' pages, and where their browsers find them.
type Console struct {
	// Serves the console at `/console/`.
	Enabled bool `yaml:"enabled" default:"true"`
	// The console's address behind a proxy that ends TLS, such as `https://ops.example.com`:
	// [sign-in](operators.md#signing-in) through the proxy needs it.
	Origin string `yaml:"origin" kind:"URL"`
}

// origin is https, and a host with perhaps a port, as a browser writes it.
// Source: RFC 6454, section 6.1.
var origin = regexp.MustCompile(`^https://(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::[1-9][0-9]{0,4})?$`)

func (c Console) check(k *check, key string, tokens int) {
	switch {
	case c.Origin == "":
	case !origin.MatchString(c.Origin) || strings.HasSuffix(c.Origin, ":443"):
		k.fault(join(key, "origin"), "want https://HOST or https://HOST:PORT as a browser writes it: in lower case, without a path, and without :443")
	case tokens == 0:
		k.fault(join(key, "origin"), "is for signing in, which needs tokens: http.tokens is empty")
	}
}

// A Token lets its bearer use the API. The configuration holds only the token's hash.
type Token struct {
	// The caller's name, in logs and beside changes.
	Name string `yaml:"name"`
	// The caller's [rights](operators.md#tokens).
	Role Role `yaml:"role" oneof:"producer viewer operator"`
	// The token's hash, from `pushpace token new`.
	SHA256 Hash `yaml:"sha256" kind:"64 hexadecimal digits"`
	// The token's apps; all by default.
	Apps []string `yaml:"apps"`
	// Notifications and other requests through all processes; no bound by default.
	Rate *Quota `yaml:"rate"`
}

// A Role is the rights of a token.
type Role string

// The roles.
const (
	Producer Role = "producer"
	Viewer   Role = "viewer"
	Operator Role = "operator"
)

// CheckRole returns an error for an unknown role.
func CheckRole(role Role) error {
	field, _ := reflect.TypeFor[Token]().FieldByName("Role")
	return choiceFault(field, string(role))
}

// A Hash is a SHA-256.
type Hash [32]byte

// UnmarshalText accepts 64 hexadecimal digits.
func (h *Hash) UnmarshalText(text []byte) error {
	if hex.DecodedLen(len(text)) != len(h) {
		return errHash
	}
	if _, err := hex.Decode(h[:], text); err != nil {
		return errHash
	}
	return nil
}

var errHash = errors.New("want the 64 hexadecimal digits of the token's SHA-256")

// MarshalText hides the hash.
func (h Hash) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Loopback reports whether only this machine can reach the address.
func (l Listen) Loopback() bool {
	host, _, _ := net.SplitHostPort(string(l))
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (h HTTP) check(k *check, key string, apps []string) {
	if h.Listen != "" && len(h.Tokens) == 0 && !h.Listen.Loopback() {
		k.fault(join(key, "listen"), "is not the loopback, and http.tokens is empty: everyone could send; give tokens, or listen on :PORT or 127.0.0.1:PORT")
	}
	if (h.TLS.CertFile == "") != (h.TLS.KeyFile == "") {
		k.fault(join(key, "tls"), "want both cert_file and key_file")
	}
	names, hashes := map[string]int{}, map[Hash]int{}
	for i, t := range h.Tokens {
		at := index(join(key, "tokens"), i)
		if message := nameFault(t.Name); message != "" {
			k.fault(join(at, "name"), message)
		} else if first, taken := names[t.Name]; taken {
			k.fault(join(at, "name"), fmt.Sprintf("is that of %s: each token needs its own", index("tokens", first)))
		} else {
			names[t.Name] = i
		}
		if t.SHA256 == (Hash{}) {
			k.fault(join(at, "sha256"), "is missing: "+errHash.Error())
		} else if first, taken := hashes[t.SHA256]; taken {
			k.fault(join(at, "sha256"), fmt.Sprintf("is that of %s: each name needs a token of its own", index("tokens", first)))
		} else {
			hashes[t.SHA256] = i
		}
		t.checkApps(k, join(at, "apps"), apps)
		if t.Rate != nil {
			t.Rate.check(k, join(at, "rate"))
			t.Rate.checkRamp(k, join(at, "rate"))
		}
	}
	h.Console.check(k, join(key, "console"), len(h.Tokens))
}

// checkApps checks that the apps of a token are configured, if any apps are. A list that has
// lost its last entry is a fault: without a list, the token would be for all apps.
func (t Token) checkApps(k *check, key string, apps []string) {
	if _, given := k.origin[key]; len(t.Apps) == 0 && (given || t.Apps != nil) {
		k.fault(key, "is empty: want a list of apps, or no such key for all of them")
	}
	for i, app := range t.Apps {
		switch message := nameFault(app); {
		case message != "":
			k.fault(index(key, i), message)
		case slices.Contains(t.Apps[:i], app):
			k.fault(index(key, i), "is there twice")
		case len(apps) > 0 && !slices.Contains(apps, app):
			k.fault(index(key, i), "is no app of apps"+suggest.Hint(app, apps))
		}
	}
}
