//go:build unix

package redistest

import (
	"context"
	"net"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// InBubble returns a client of a new miniredis without a socket, for tests in a bubble of
// testing/synctest, on the bubble's clock. Send only small commands: a pipeline of more than 4 KiB
// hangs.
func InBubble(t testing.TB) *redis.Client {
	t.Helper()
	server := miniredis.NewMiniRedis()
	client := redis.NewClient(&redis.Options{
		Addr:                  "127.0.0.1:0", // needs no name lookup
		Dialer:                func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
		ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() {
		_ = client.Close()
		server.Close()
	})
	return client
}
