package redisconn

import (
	"context"
	"fmt"

	"github.com/pushpace/pushpace/internal/base/embedded"
	"github.com/pushpace/pushpace/internal/config"
)

func openEmbedded(ctx context.Context, cfg config.Redis, poolSize int) (*Conn, error) {
	server, err := embedded.Start()
	if err != nil {
		return nil, err
	}
	reached := server.Options()
	cfg.Address.Hosts, cfg.Password = []string{reached.Addr}, config.Secret(reached.Password)
	opts, err := options(cfg, poolSize)
	if err != nil {
		server.Close()
		return nil, err
	}
	conn := newConn(opts, 0)
	conn.embedded = server
	if err := conn.Client.Ping(ctx).Err(); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("the embedded Redis does not answer: %w", err)
	}
	return conn, nil
}
