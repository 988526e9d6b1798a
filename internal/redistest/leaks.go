package redistest

import "go.uber.org/goleak"

// Dialing lets go-redis's own attempts to reach a server that is away end by
// themselves: they sleep for a second between two looks at whether their client
// is closed.
func Dialing() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")
}
