package worker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// After the limits' Redis set its clock back, the log names a hundred users with newer admissions, and
// says that there are more.
func TestClockSetBackNamesUsers(t *testing.T) {
	t.Parallel()
	const users = 103
	server := redistest.Miniredis(t)
	now := time.Now()
	server.SetTime(now)
	r := newRig(t, redistest.Connect(t, &redis.Options{Addr: redistest.Miniredis(t).Addr()}), limits.New(throttle.Policy{MinGap: time.Millisecond}, nil))
	limiter, err := throttle.New(redistest.Connect(t, &redis.Options{Addr: server.Addr()}), throttle.Options{Timeout: redistest.Patience})
	must(t, err)
	t.Cleanup(func() { limiter.Close() })
	r.limiter, r.options.Limiter = limiter, limiter
	log := r.logs()
	r.start()
	round := func(name string) {
		for i := range users {
			n := to(fmt.Sprint(name, "-", i), apple)
			n.User = fmt.Sprint("user-", i)
			r.enqueue(n)
		}
	}
	round("before")
	r.settled(users)
	server.SetTime(now.Add(-time.Hour))
	const named, counted = "the limited notifications of a user wait until it has caught up", "more users wait than the log names"
	round("after")
	wait(t, func() bool { return strings.Count(log.text(), named) == 100 && strings.Contains(log.text(), counted) })
	text := log.text()
	if strings.Count(text, named) != 100 || !strings.Contains(text, "app=shop user=user-") || !strings.Contains(text, " in=1h0m0s") {
		t.Error(text[:min(len(text), 2000)])
	}
}
