package config

import (
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/pushpace/pushpace/internal/base/shard"
)

// Redis says how to reach a Redis.
type Redis struct {
	Address  Address `yaml:"address"` // required
	Username string  `yaml:"username"`
	Password Secret  `yaml:"password"`
	// PasswordFile is the file Password is read from. One or the other.
	PasswordFile         string `yaml:"password_file"`
	SentinelUsername     string `yaml:"sentinel_username"`
	SentinelPassword     Secret `yaml:"sentinel_password"`
	SentinelPasswordFile string `yaml:"sentinel_password_file"`
	DB                   int    `yaml:"db"` // 0 to 65535; 0 for a Cluster
	TLS                  TLS    `yaml:"tls"`
	// Prefix begins every key of pushpace's own, as in PREFIX:…; "pushpace" by
	// default. For limits.redis it is redis.prefix by default.
	Prefix string `yaml:"prefix"`
	// Shards is the number of shards of the queues and records: a power of two up to 256, the
	// most masters that a Cluster will ever have. 0, the default, is 8 on a Cluster and 1
	// elsewhere. limits.redis has none.
	Shards int `yaml:"shards"`
	// Acknowledged is how many replicas must have a write before it counts as made, 0 to 5. 0,
	// the default, asks none, and a failover may lose what its replica had not received.
	Acknowledged int `yaml:"acknowledged"`
	// Strict refuses the start where a Redis that may lose keys is otherwise a
	// warning.
	Strict bool `yaml:"strict"`
	// DialTimeout bounds the making of a connection, Timeout the sending of a
	// command and the wait for its answer. 2 s each by default, 10 ms to 1 min.
	DialTimeout time.Duration `yaml:"dial_timeout"`
	Timeout     time.Duration `yaml:"timeout"`
}

// TLS says how to encrypt a connection. The peer's certificate is always verified.
type TLS struct {
	Enabled bool `yaml:"enabled"`
	// CAFile holds the trusted certificates in PEM, in place of the system's.
	CAFile string `yaml:"ca_file"`
	// ServerName is the name the certificate must have; by default the host.
	ServerName string `yaml:"server_name"`
	// CertFile and KeyFile, both or neither, are the client's own in PEM.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
}

const (
	defaultPrefix   = "pushpace"
	maxAcknowledged = 5
)

// SetDefaults sets every field to its default but Address, which has none, and
// Prefix, whose default depends on which Redis this is.
func (r *Redis) SetDefaults() {
	*r = Redis{DialTimeout: 2 * time.Second, Timeout: 2 * time.Second}
}

// A prefix has no brace, which would be a hash tag, and no glob character.
var prefix = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)

func (r Redis) check(k *check, key string) {
	r.Address.check(k, join(key, "address"))
	r.checkCredentials(k, key)
	r.TLS.check(k, join(key, "tls"))
	if r.Address.Mode == Embedded && r.TLS.Enabled {
		k.fault(join(key, "tls", "enabled"), "the embedded Redis takes no TLS: remove it or name a server in address")
	}
	switch {
	case r.DB < 0 || r.DB > 65535:
		k.fault(join(key, "db"), "want 0 to 65535")
	case r.DB != 0 && r.Address.Mode == Cluster:
		k.fault(join(key, "db"), "a Cluster has database 0 only: remove it")
	}
	if !prefix.MatchString(r.Prefix) {
		k.fault(join(key, "prefix"), "want 1 to 64 letters, digits, and . _ : -")
	}
	switch {
	case r.Shards != 0 && !shard.Valid(r.Shards):
		k.fault(join(key, "shards"), "want a power of two up to 256: 1, 2, 4, 8, …")
	case r.Shards != 0 && key != "redis":
		k.fault(join(key, "shards"), "only for redis, which has the queues: a user's timelines lie by the user alone")
	}
	switch {
	case r.Acknowledged < 0 || r.Acknowledged > maxAcknowledged:
		k.fault(join(key, "acknowledged"), fmt.Sprintf("want 0 to %d", maxAcknowledged))
	case r.Acknowledged != 0 && r.Address.Mode == Embedded:
		k.fault(join(key, "acknowledged"), "the embedded Redis has no replica: remove it or name a server in address")
	}
	for name, d := range map[string]time.Duration{"dial_timeout": r.DialTimeout, "timeout": r.Timeout} {
		k.duration(join(key, name), d, 10*time.Millisecond, time.Minute)
	}
}

func (r Redis) checkCredentials(k *check, key string) {
	embedded := r.Address.Mode == Embedded
	for _, c := range []struct {
		prefix, username string
		password         Secret
		sentinel         bool
	}{
		{"", r.Username, r.Password, false},
		{"sentinel_", r.SentinelUsername, r.SentinelPassword, true},
	} {
		switch {
		case c.username == "" && c.password == "":
		case embedded:
			k.fault(join(key, firstSet(c.prefix, c.username)), "the embedded Redis takes no credentials: remove it or name a server in address")
		case c.sentinel && r.Address.Mode != Sentinel:
			k.fault(join(key, firstSet(c.prefix, c.username)), "only for an address of the form {master: NAME, sentinels: [host:port]}")
		case c.password == "":
			k.fault(join(key, c.prefix+"username"), "needs "+c.prefix+"password or "+c.prefix+"password_file")
		}
	}
}

func firstSet(prefix, username string) string {
	if username != "" {
		return prefix + "username"
	}
	return prefix + "password"
}

func (t TLS) check(k *check, key string) {
	if !t.Enabled && t != (TLS{}) {
		k.fault(key, "has settings, but enabled is not true")
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		k.fault(key, "cert_file and key_file go together: set both or neither")
	}
}

// String describes r for a person. It holds no secret.
func (r Redis) String() string { return r.LogValue().String() }

// LogValue describes r for a log. It holds no secret.
func (r Redis) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("address", r.Address.String()),
		slog.Int("db", r.DB),
		slog.String("prefix", r.Prefix),
		slog.Bool("tls", r.TLS.Enabled),
		slog.Bool("password", r.Password != ""),
		slog.Int("acknowledged", r.Acknowledged),
		slog.Bool("strict", r.Strict),
	)
}
