package throttle

import (
	"github.com/redis/go-redis/v9"
)

// NewRedis is New, but panics on an error.
func NewRedis(client redis.UniversalClient, o Options) *Redis {
	l, err := New(client, o)
	if err != nil {
		panic(err)
	}
	return l
}
