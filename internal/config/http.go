package config

import (
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/base/near"
)

// HTTP says where and to whom the HTTP API answers.
type HTTP struct {
	// Listen is where it answers. The zero value is nowhere.
	Listen Listen `yaml:"listen"`
	// TLS has it answer over TLS. The zero value is plain HTTP.
	TLS ServerTLS `yaml:"tls"`
	// Tokens say who may use it. Without any, everyone on this machine may, and
	// it listens on the loopback alone.
	Tokens []Token `yaml:"tokens"`
	// Console is the operators' pages on the same address.
	Console Console `yaml:"console"`
	// MaxBody is the largest body of a request, in bytes. 4 MiB by default,
	// 64 KiB to 64 MiB.
	MaxBody int `yaml:"max_body"`
	// MaxQueue is how many notifications may wait or be dead letters before no more are taken; it is
	// measured about once a second. 1,000,000 by default, 1 to 1,000,000,000.
	MaxQueue int `yaml:"max_queue"`
	// MaxRequests is how many requests are answered at once, and how many bodies
	// arrive at once; more are asked to come again, and so are those whose bodies
	// would together be over 32 MiB, or MaxBody if that is more, by what has arrived
	// of them. The bodies of one token get half of both. 512 by default, 1 to 100,000.
	MaxRequests int `yaml:"max_requests"`
	// ReadTimeout is how long a request may take to arrive. 10 s by default, 100 ms
	// to 10 min.
	ReadTimeout time.Duration `yaml:"read_timeout"`
	// Timeout is how long its answer may take from then on. 10 s by default, 100 ms
	// to 10 min.
	Timeout time.Duration `yaml:"timeout"`
}

// ServerTLS are the files of a server's certificate, in PEM. They are used anew
// when they change.
type ServerTLS struct {
	CertFile string `yaml:"cert_file"` // with the chain up to the authority
	KeyFile  string `yaml:"key_file"`
}

// Enabled reports whether there is a certificate.
func (t ServerTLS) Enabled() bool { return t.CertFile != "" }

// Console says whether there are operators' pages, and where their browsers find them.
type Console struct {
	// Enabled has them answered. True by default.
	Enabled bool `yaml:"enabled"`
	// Origin is what browsers reach them by where a proxy ends TLS, as
	// https://ops.example.com. Without it there is a sign-in over http.tls and the
	// loopback alone.
	Origin string `yaml:"origin"`
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
		k.fault(join(key, "origin"), "is for those who sign in, and http.tokens is empty")
	}
}

// A Token lets its bearer use the API. The configuration holds its hash alone.
type Token struct {
	// Name says who bears it, in logs and beside the changes made with it.
	Name string `yaml:"name"`
	Role Role   `yaml:"role"`
	// SHA256 is the token's hash.
	SHA256 Hash `yaml:"sha256"`
	// Apps are those whose things alone its bearer sees and changes; nil for all.
	Apps []string `yaml:"apps"`
	// Rate is how many notifications it may hand over, and what else it may ask for,
	// through all processes; nil for no bound.
	Rate *Quota `yaml:"rate"`
}

// A Role says what the bearer of a token may do.
type Role string

// The roles.
const (
	Producer Role = "producer" // hand over notifications, look at them and cancel them
	Viewer   Role = "viewer"   // look at everything
	Operator Role = "operator" // everything
)

// UnmarshalText accepts producer, viewer and operator.
func (r *Role) UnmarshalText(text []byte) error {
	return oneOf(r, string(text), Producer, Viewer, Operator)
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

// SetDefaults sets every field to its default.
func (h *HTTP) SetDefaults() {
	*h = HTTP{MaxBody: 4 << 20, MaxQueue: 1_000_000, MaxRequests: 512, ReadTimeout: 10 * time.Second, Timeout: 10 * time.Second, Console: Console{Enabled: true}}
}

// Loopback reports whether only this machine reaches l.
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
		if t.Role == "" {
			k.fault(join(at, "role"), "is missing: want producer, viewer or operator")
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
	k.integer(join(key, "max_body"), h.MaxBody, 64<<10, 64<<20)
	k.integer(join(key, "max_queue"), h.MaxQueue, 1, 1_000_000_000)
	k.integer(join(key, "max_requests"), h.MaxRequests, 1, 100_000)
	k.duration(join(key, "read_timeout"), h.ReadTimeout, 100*time.Millisecond, 10*time.Minute)
	k.duration(join(key, "timeout"), h.Timeout, 100*time.Millisecond, 10*time.Minute)
}

// checkApps checks the apps of a token, which are some of the configuration's where that
// has any. A list that has lost its last entry is not one of all.
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
			k.fault(index(key, i), "is no app of apps"+near.Hint(app, apps))
		}
	}
}

// LogValue describes h for a log.
func (h HTTP) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("listen", string(h.Listen)),
		slog.Bool("tls", h.TLS.Enabled()),
		slog.Int("tokens", len(h.Tokens)),
	)
}
