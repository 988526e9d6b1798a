// Package redisconn connects to the configured Redis, and checks at the start that it answers and
// persists its keys. Start with Open; Watch reports its error states.
package redisconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/pushpace/pushpace/internal/base/acknowledged"
	"github.com/pushpace/pushpace/internal/base/embedded"
	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/base/textfile"
	"github.com/pushpace/pushpace/internal/config"
)

const startLimit = 8 * time.Second

// A Conn is a checked connection to a Redis.
type Conn struct {
	// Client is safe for concurrent use. A command's context, or without a deadline the configured
	// timeout, bounds the command; in a pipeline the timeout bounds the wait for each next answer.
	Client redis.UniversalClient
	// Warnings describe how this Redis may lose keys or stop, each with the remedy.
	Warnings []string

	hook     *errorHook
	embedded *embedded.Redis // nil for a server
}

// Open connects with at most poolSize connections to each node, and checks that the server answers,
// or at least one node of a Cluster. It takes 9 s at most. The error names the address but never the
// credentials. A Redis that may lose keys is an error with cfg.Strict, otherwise a warning.
func Open(ctx context.Context, cfg config.Redis, poolSize int) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if cfg.Address.Mode == config.Embedded {
		return openEmbedded(ctx, cfg, poolSize)
	}
	opts, err := options(cfg, poolSize)
	if err != nil {
		return nil, fmt.Errorf("redis %s: %w", cfg.Address, err)
	}
	conn := newConn(opts, cfg.Acknowledged)
	found, err := inspect(ctx, conn.Client, cfg)
	if err != nil {
		discard(conn.Client)
		return nil, fmt.Errorf("redis %s: %w", cfg.Address, Explain(err, cfg))
	}
	if cfg.Strict && len(found.losses) > 0 {
		discard(conn.Client)
		return nil, fmt.Errorf("not starting, because redis.strict is set: %s", strings.Join(found.losses, "; "))
	}
	conn.Warnings = append(found.losses, found.outages...)
	return conn, nil
}

// Unchecked returns a Conn without a check; it connects when it is first used.
func Unchecked(cfg config.Redis, poolSize int) (*Conn, error) {
	opts, err := options(cfg, poolSize)
	if err != nil {
		return nil, fmt.Errorf("redis %s: %w", cfg.Address, err)
	}
	return newConn(opts, cfg.Acknowledged), nil
}

// newConn returns a Conn whose hooks set errors on all commands of a refused connection, and make
// each successful write wait for that many replicas.
func newConn(opts *redis.UniversalOptions, replicas int) *Conn {
	c := &Conn{hook: new(errorHook)}
	if opts.IsClusterMode {
		c.Client = newCluster(opts, c.hook)
	} else {
		c.Client = redis.NewUniversalClient(opts)
		c.Client.AddHook(progressHook{})
	}
	c.Client.AddHook(c.hook)
	c.Client.AddHook(pipeline.Refusals{})
	_ = acknowledged.Writes(c.Client, replicas) // never fails for these two types; added last, so that the other hooks see its error
	return c
}

// discard closes a client but waits at most 1 s, because Close waits until all calls to silent
// Sentinels have timed out.
func discard(c redis.UniversalClient) {
	closed := make(chan struct{})
	go func() { defer close(closed); _ = c.Close() }()
	select {
	case <-closed:
	case <-time.After(time.Second):
	}
}

// Close closes the connections, and ends the embedded Redis.
func (c *Conn) Close() error {
	err := c.Client.Close()
	if c.embedded != nil {
		c.embedded.Close()
	}
	return err
}

func options(cfg config.Redis, poolSize int) (*redis.UniversalOptions, error) {
	tlsConfig, err := tlsConfig(cfg.TLS)
	if err != nil {
		return nil, err
	}
	return &redis.UniversalOptions{
		Addrs:            cfg.Address.Hosts,
		MasterName:       cfg.Address.Master,
		IsClusterMode:    cfg.Address.Mode == config.Cluster,
		OnConnect:        setName,
		DB:               cfg.DB,
		Username:         cfg.Username,
		Password:         string(cfg.Password),
		SentinelUsername: cfg.SentinelUsername,
		SentinelPassword: string(cfg.SentinelPassword),
		TLSConfig:        tlsConfig,

		// At most two attempts for a command, on a Cluster three, so that a command without a
		// deadline ends soon if Redis accepts and does not answer.
		MaxRetries:            1,
		DialerRetries:         1,
		DialTimeout:           cfg.DialTimeout,
		ReadTimeout:           cfg.Timeout,
		WriteTimeout:          cfg.Timeout,
		PoolTimeout:           cfg.Timeout,
		ContextTimeoutEnabled: true,
		PoolSize:              poolSize,

		// On connect, both features would send commands that some servers refuse.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}, nil
}

// setName names a new connection in CLIENT LIST, for people. Managed services, proxies and ACLs may
// refuse the command; the connection still works. With the option ClientName, go-redis would close
// such a connection.
func setName(ctx context.Context, conn *redis.Conn) error {
	err := conn.ClientSetName(ctx, "pushpace").Err()
	if err != nil && redisreply.Answered(err) && redisreply.Of(err) == redisreply.None {
		return nil
	}
	return err
}

// maxPEM is the largest certificate file, in bytes.
const maxPEM = 1 << 20

func tlsConfig(t config.TLS) (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		f, err := os.Open(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tls.ca_file: %w", err)
		}
		defer f.Close()
		pem, err := io.ReadAll(io.LimitReader(f, maxPEM))
		if err == nil {
			pem, err = textfile.Decode(pem)
		}
		if err != nil {
			return nil, fmt.Errorf("tls.ca_file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca_file: %s holds no certificate in PEM", t.CAFile)
		}
	}
	if t.CertFile != "" {
		own, err := textfile.KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("tls.cert_file and tls.key_file: %w", err)
		}
		c.Certificates = []tls.Certificate{own}
	}
	return c, nil
}
