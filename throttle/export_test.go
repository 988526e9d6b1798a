package throttle

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// NewRedis is New on a client that can hold timelines.
func NewRedis(client redis.UniversalClient, o Options) *Redis {
	l, err := New(client, o)
	if err != nil {
		panic(err)
	}
	return l
}

// Unasked has nobody have asked any store in trouble for so much longer.
func (o *Outage) Unasked(long time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.last {
		s.asked = s.asked.Add(-long)
	}
}
