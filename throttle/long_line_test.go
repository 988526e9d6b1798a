//go:build unix

package throttle_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle"
)

var statCalls = regexp.MustCompile(`calls=(\d+)`)

// commands answers how many commands Redis has executed since its statistics
// were reset, those of scripts included.
func commands(t *testing.T, client *redis.Client) (n int) {
	t.Helper()
	info, err := client.Info(context.Background(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range statCalls.FindAllStringSubmatch(info, -1) {
		calls, _ := strconv.Atoi(m[1])
		n += calls
	}
	return n
}

// TestCancelsOnALongLine has many give up at once who wait in a long line: what
// that costs Redis does not grow with the line, and others are served meanwhile.
func TestCancelsOnALongLine(t *testing.T) {
	t.Parallel()
	const waiting, sent, cancels, atOnce, most = throttle.LongLine, 200, 17, 4, 1000
	minute, day := time.Minute, 24*time.Hour
	general := throttle.Policy{MinGap: time.Second, Rates: []throttle.Rate{{Count: 10, Period: minute}}}
	for name, scopes := range map[string][]throttle.Scope{
		"general limits":    {{Name: throttle.General, Policy: general}},
		"a category's":      {{Name: throttle.General, Policy: general}, {Name: "c", Policy: throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: minute / 2}}}}},
		"both":              {{Name: throttle.General, Policy: general}, {Name: "c", Policy: throttle.Policy{Rates: []throttle.Rate{{Count: 100, Period: minute}}}}},
		"a rate of a day's": {{Name: throttle.General, Policy: throttle.Policy{Rates: []throttle.Rate{{Count: sent, Period: day}}}}, {Name: "c", Policy: throttle.Policy{MinGap: minute / 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			client := server.Client(t)
			l := newRedisOn(t, server.Options(), throttle.Options{Prefix: redistest.Prefix()})
			ctx := t.Context()
			request := func(i int) throttle.Request {
				return throttle.Request{User: "u", ID: fmt.Sprint("n", i), Scopes: scopes, Horizon: 10_000 * day}
			}
			for i := range waiting + sent { // a rate may let so many go
				if _, err := l.Acquire(ctx, request(i)); err != nil {
					t.Fatal(err)
				}
			}
			if err := client.ConfigResetStat(ctx).Err(); err != nil {
				t.Fatal(err)
			}
			var lanes sync.WaitGroup
			next := make(chan int, cancels)
			for i := range cancels {
				next <- sent + 10 + 11*i
			}
			close(next)
			for range atOnce {
				lanes.Go(func() {
					for i := range next {
						moved, err := l.Cancel(ctx, request(i))
						if err != nil {
							t.Error(err)
						}
						if len(moved) > 500 {
							t.Errorf("%d come forward in one call", len(moved))
						}
						other := request(0)
						other.User, other.ID = fmt.Sprint("other", i), "n"
						if d, err := l.Acquire(ctx, other); err != nil || d.Status != throttle.Granted {
							t.Errorf("another user: %+v, %v", d, err)
						}
					}
				})
			}
			lanes.Wait()
			n := commands(t, client) / cancels
			t.Logf("each cancel has Redis execute %d commands", n)
			if n > most {
				t.Errorf("each cancel has Redis execute %d commands, want %d at most", n, most)
			}
			timeline, err := l.Timeline(ctx, request(0))
			if err != nil {
				t.Fatal(err)
			}
			for i, last := 0, -1; i < len(timeline.Bookings); i++ {
				n, _ := strconv.Atoi(timeline.Bookings[i].ID[1:])
				if n < last {
					t.Fatalf("n%d stands behind n%d", n, last)
				}
				last = n
			}
		})
	}
}

// wholeLine is what a script reads first when it reads all that waits of a user.
var wholeLine = regexp.MustCompile(`cmdstat_hgetall:calls=(\d+)`)

// TestArrivalsBehindALongLine has some come behind many of their category: no call
// reads the line, whatever the rates count.
func TestArrivalsBehindALongLine(t *testing.T) {
	t.Parallel()
	const waiting, arrivals = throttle.LongLine / 2, 50
	const day = 24 * time.Hour
	few := throttle.Policy{MinGap: time.Second, Rates: []throttle.Rate{{Count: 10, Period: time.Minute}}}
	many := throttle.Policy{Rates: []throttle.Rate{{Count: waiting, Period: day}}}
	server := redistest.Start(t)
	client := server.Client(t)
	for name, scopes := range map[string][]throttle.Scope{
		"few":                   {{Name: throttle.General, Policy: few}},
		"many":                  {{Name: throttle.General, Policy: many}},
		"few, and a category's": {{Name: throttle.General, Policy: few}, {Name: "c", Policy: many}},
	} {
		l, next := newRedisOn(t, server.Options(), throttle.Options{Prefix: redistest.Prefix()}), 0
		arrive := func() throttle.Decision {
			next++
			d, err := l.Acquire(t.Context(), throttle.Request{User: "u", ID: fmt.Sprint("n", next), Scopes: scopes, Horizon: 10_000 * day})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		for n := 0; n < waiting; {
			if arrive().Status == throttle.Deferred {
				n++
			}
		}
		if err := client.ConfigResetStat(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		for range arrivals {
			arrive()
		}
		info, err := client.Info(t.Context(), "commandstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(info, "cmdstat_evalsha:") {
			t.Fatalf("%s: no script was run: %s", name, info)
		}
		if m := wholeLine.FindStringSubmatch(info); m != nil {
			t.Errorf("%s: %s of %d arrivals read the whole line", name, m[1], arrivals)
		}
	}
}
