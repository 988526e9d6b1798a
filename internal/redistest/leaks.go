package redistest

import "go.uber.org/goleak"

// Dialing makes goleak ignore go-redis's attempts to reach an unreachable server, which check only
// once a second whether their client is closed.
func Dialing() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")
}
