package config

import (
	"regexp"
	"time"

	"github.com/pushpace/pushpace/internal/base/shard"
)

// Redis says how to reach a Redis.
type Redis struct {
	// Required: `host:port`, a list of `host:port` (Cluster), `{master: NAME, sentinels: [host:port]}`,
	// or `embedded`, a Redis inside the process that keeps nothing.
	Address Address `yaml:"address"`
	// The ACL's user.
	Username string `yaml:"username"`
	// Its password.
	Password Secret `yaml:"password"`
	// A file with the password.
	PasswordFile string `yaml:"password_file"`
	// The user at the Sentinels.
	SentinelUsername string `yaml:"sentinel_username"`
	// Its password.
	SentinelPassword Secret `yaml:"sentinel_password"`
	// A file with the password.
	SentinelPasswordFile string `yaml:"sentinel_password_file"`
	// The database; a Cluster has 0 only.
	DB  int `yaml:"db" default:"0" range:"0..65535"`
	TLS TLS `yaml:"tls"`
	// The start of every key except the queues' keys: run one deployment a database.
	// `limits.redis.prefix` is `redis.prefix` by default.
	Prefix string `yaml:"prefix" default:"pushpace"`
	// The number of shards, a power of two: see docs/scaling.md#shards. 0 is 8 on a Cluster, and 1
	// elsewhere. Not for `limits.redis`.
	Shards int `yaml:"shards" default:"0" range:"0..256"`
	// The replicas that must have a write before it counts: see
	// docs/running.md#acknowledged-writes.
	Acknowledged int `yaml:"acknowledged" default:"0" range:"0..5"`
	// Refuses to start if Redis may lose keys, instead of a warning.
	Strict bool `yaml:"strict" default:"false"`
	// The longest time to connect.
	DialTimeout time.Duration `yaml:"dial_timeout" default:"2s" range:"10ms..1m"`
	// The longest time until a command's answer.
	Timeout time.Duration `yaml:"timeout" default:"2s" range:"10ms..1m"`
}

// TLS says how to encrypt a connection. The peer's certificate is always verified.
type TLS struct {
	// Encrypts, and verifies the server's certificate.
	Enabled bool `yaml:"enabled" default:"false"`
	// The trusted authorities, instead of the system's.
	CAFile string `yaml:"ca_file"`
	// The name in the server's certificate; the address's host by default.
	ServerName string `yaml:"server_name"`
	// The client's certificate, with `key_file`.
	CertFile string `yaml:"cert_file"`
	// The certificate's key.
	KeyFile string `yaml:"key_file"`
}

// prefix allows no brace, which would begin a hash tag, and no glob character.
var prefix = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)

func (r Redis) check(k *check, key string) {
	r.Address.check(k, join(key, "address"))
	r.checkCredentials(k, key)
	r.TLS.check(k, join(key, "tls"))
	if r.Address.Mode == Embedded && r.TLS.Enabled {
		k.fault(join(key, "tls", "enabled"), "the embedded Redis takes no TLS: remove it or name a server in address")
	}
	if r.DB != 0 && r.Address.Mode == Cluster {
		k.fault(join(key, "db"), "a Cluster has database 0 only: remove it")
	}
	if !prefix.MatchString(r.Prefix) {
		k.fault(join(key, "prefix"), "want 1 to 64 letters, digits, and . _ : -")
	}
	switch {
	case r.Shards != 0 && !shard.Valid(r.Shards):
		k.fault(join(key, "shards"), "want a power of two up to 256: 1, 2, 4, 8, …")
	case r.Shards != 0 && key != "redis":
		k.fault(join(key, "shards"), "only redis has shards, of its queues and records: remove it")
	}
	if r.Acknowledged != 0 && r.Address.Mode == Embedded {
		k.fault(join(key, "acknowledged"), "the embedded Redis has no replica: remove it or name a server in address")
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
