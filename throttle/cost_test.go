//go:build unix

package throttle_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle"
)

var statCalls = regexp.MustCompile(`calls=(\d+)`)

// commands returns the number of commands that Redis has executed, also in scripts.
func commands(t *testing.T, client *redis.Client) (n int) {
	t.Helper()
	info, err := client.Info(context.Background(), "commandstats").Result()
	must(t, err)
	for _, m := range statCalls.FindAllStringSubmatch(info, -1) {
		calls, _ := strconv.Atoi(m[1])
		n += calls
	}
	return n
}

// The number of Redis commands of a call does not depend on the number of waiting notifications:
// short and long lines, of one category or of two, have the same bounds.
func TestCallCostIsIndependentOfLineLength(t *testing.T) {
	t.Parallel()
	for _, waiting := range []int{10, 400} {
		t.Run(fmt.Sprint(waiting, " wait"), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			client := server.Client(t)
			l := newRedisOn(t, server.Options(), throttle.Options{Prefix: redistest.Prefix()})
			general := throttle.Policy{MinGap: time.Minute, Rates: []throttle.Rate{{Count: 5, Period: 10 * time.Minute}}}
			request := func(user, category, id string) throttle.Request {
				return throttle.Request{User: user, ID: id, Horizon: 1000 * time.Hour, MaxBooked: max(throttle.MaxEntries, waiting),
					Scopes: []throttle.Scope{{Name: throttle.General, Policy: general}, {Name: category, Policy: throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: 3 * time.Minute}}}}}}
			}
			acquire := func(r throttle.Request, want throttle.Status) {
				t.Helper()
				if d, err := l.Acquire(t.Context(), r); err != nil || d.Status != want {
					t.Fatalf("%+v, %v", d, err)
				}
			}
			acquire(request("u", "a", "sent"), throttle.Granted)
			for i := range waiting {
				acquire(request("u", []string{"a", "b"}[i%2], fmt.Sprint("n", i)), throttle.Deferred)
			}
			full := request("u", "a", "one more")
			full.MaxBooked = waiting / 2
			for _, tt := range []struct {
				what string
				do   func()
				most int
			}{
				{"an admission", func() { acquire(request("other", "a", "n"), throttle.Granted) }, 46}, // a claim, and a script if the prediction fails
				{"one that waits first", func() { acquire(request("other", "a", "m"), throttle.Deferred) }, 46},
				{"one that waits behind others", func() { acquire(request("u", "a", "new"), throttle.Deferred) }, 36},
				{"one that comes too early", func() { acquire(request("u", "a", "n4"), throttle.Deferred) }, 25},
				{"one that is rejected", func() { acquire(full, throttle.Rejected) }, 15},
				{"a cancel", func() { must(t, second(l.Cancel(t.Context(), request("u", "b", "n5")))) }, 30},
				{"another cancel within a second", func() { must(t, second(l.Cancel(t.Context(), request("u", "b", "n7")))) }, 18},
				{"a replan", func() { must(t, second(l.Replan(t.Context(), []throttle.Request{request("u", "a", "")}))) }, 25},
				{"a replan of nobody", func() { must(t, second(l.Replan(t.Context(), []throttle.Request{request("nobody", "a", "")}))) }, 12},
			} {
				before := commands(t, client)
				tt.do()
				n := commands(t, client) - before
				t.Logf("%s takes %d commands", tt.what, n)
				if n > tt.most {
					t.Errorf("%s takes %d commands, want %d at most", tt.what, n, tt.most)
				}
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }
