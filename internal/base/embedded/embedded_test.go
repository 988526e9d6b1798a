package embedded_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/pushpace/pushpace/internal/base/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestKeysExpireBySetClock(t *testing.T) {
	server, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	c := redis.NewClient(server.Options())
	defer c.Close()
	began := time.Unix(1_800_000_000, 0)
	set := func(at time.Time) { server.SetTime(func() time.Time { return at }) }
	set(began)
	if err := c.Set(t.Context(), "k", "v", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	set(began.Add(59 * time.Second))
	if err := c.Get(t.Context(), "k").Err(); err != nil {
		t.Errorf("before its end: %v", err)
	}
	set(began) // sets the clock back, which makes no key end earlier
	set(began.Add(59 * time.Second))
	if err := c.Get(t.Context(), "k").Err(); err != nil {
		t.Errorf("after the clock was set back: %v", err)
	}
	set(began.Add(61 * time.Second))
	if err := c.Get(t.Context(), "k").Err(); err != redis.Nil {
		t.Errorf("after its end: %v", err)
	}
	if now, err := c.Time(t.Context()).Result(); err != nil || !now.Equal(began.Add(61*time.Second)) {
		t.Errorf("its clock says %s, %v", now, err)
	}
}
