package meter

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/throttle"
)

//go:embed share.lua
var shareSource string

var shareScript = redis.NewScript(shareSource)

// NewRedisShares returns Shares for the holders of all processes, on Redis's clock, with a hash
// for each number:
//
//	PREFIX:{share/KEY}   HOLDER -> its part, see share.lua; expires with the last lease
//
// An empty prefix means "pushpace". If Redis loses data, or its clock steps by more than a lease's
// life, the sum of the parts may exceed the number for the length of a lease's life.
func NewRedisShares(client redis.UniversalClient, prefix string) Shares {
	return &redisShares{client, cmp.Or(prefix, "pushpace") + ":{share/"}
}

type redisShares struct {
	client redis.UniversalClient
	prefix string
}

// Renew implements Shares.
func (s *redisShares) Renew(ctx context.Context, key string, c Claim) (int, error) {
	keys := []string{s.prefix + throttle.Escape(key) + "}"}
	part, err := shareScript.Run(ctx, s.client, keys, c.Holder, c.Number, c.Limit, c.Holds, c.Wants, c.Life.Microseconds()).Int64()
	if err != nil {
		return 0, fmt.Errorf("renew a share: key %s: %w", keys[0], err)
	}
	return parsePart(part)
}
