//go:build unix

package redistest

import (
	"context"
	"net"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// InBubble is a client of a miniredis of its own that is reached without a socket, as tests
// in a bubble of testing/synctest need it: its clock is the bubble's. It suits small
// commands alone: a pipeline of more than 4 KiB hangs.
func InBubble(t testing.TB) *redis.Client {
	t.Helper()
	server := miniredis.NewMiniRedis()
	client := redis.NewClient(&redis.Options{
		Addr:                  "127.0.0.1:0", // no name that is looked up
		Dialer:                func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
		ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() {
		_ = client.Close()
		server.Close()
	})
	return client
}
