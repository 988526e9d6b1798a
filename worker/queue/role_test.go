package queue

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/roles"
)

// A server that does not lead is told nothing, looks by itself, and is told once it leads.
func TestAServerThatDoesNotLead(t *testing.T) {
	t.Parallel()
	var role atomic.Int64
	role.Store(int64(roles.StandsBy))
	client := redistest.Connect(t, &redis.Options{Addr: redistest.Miniredis(t).Addr()})
	// it looks each second, and asks each 32
	s := idlingAs(t, client, 4*time.Second, func() roles.Role { return roles.Role(role.Load()) })
	eventually.Holds(t, "each queue is found empty", func() bool { return s.client.idle.next().After(time.Now()) })
	asks := s.client.idle.next()
	s.enqueue("one", push.Default)
	<-s.handled
	if !time.Now().Before(asks) {
		t.Errorf("it was found when the queue was asked anyway")
	}
	if n := client.Exists(t.Context(), s.client.shard.IdleKey("pushpace-default")).Val(); n > 0 {
		t.Errorf("it would be told")
	}
	role.Store(int64(roles.Leads))
	s.rest()
}
