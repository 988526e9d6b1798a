package redistest

import "go.uber.org/goleak"

// Dialing ignores go-redis's attempts to reach an unreachable server: they sleep a second between
// two checks whether their client is closed.
func Dialing() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")
}
