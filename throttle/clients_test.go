package throttle_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/throttle"
)

// New rejects unsuitable clients and options with the reason.
func TestNewRejectsUnsuitableClients(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		client  redis.UniversalClient
		options throttle.Options
	}{
		"set ContextTimeoutEnabled": {redis.NewClient(&redis.Options{}), throttle.Options{}},
		"ContextTimeoutEnabled in":  {redis.NewClusterClient(&redis.ClusterOptions{}), throttle.Options{}},
		"cannot use a *redis.Ring":  {redis.NewRing(&redis.RingOptions{}), throttle.Options{}},
		"cannot use a <nil>":        {nil, throttle.Options{}},
		"Timeout is negative":       {redis.NewClient(&redis.Options{ContextTimeoutEnabled: true}), throttle.Options{Timeout: -time.Second}},
		"Horizon or":                {redis.NewClient(&redis.Options{ContextTimeoutEnabled: true}), throttle.Options{Horizon: -time.Hour}},
	} {
		if l, err := throttle.New(c.client, c.options); err == nil || l != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%T, %+v: %v", c.client, c.options, err)
		}
		if c.client != nil {
			_ = c.client.Close()
		}
	}
}
