package throttle_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle"
)

func rate(count int, period time.Duration) throttle.Policy {
	return throttle.Policy{Rates: []throttle.Rate{{Count: count, Period: period}}}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWaitingReturnsUsersWithSlots(t *testing.T) {
	redistest.OverAll(t, func(t *testing.T, client redis.UniversalClient, prefix string) {
		prefix += "[a*]"
		l := throttle.NewRedis(client, throttle.Options{Prefix: prefix, Timeout: redistest.Patience})
		t.Cleanup(func() { l.Close() })
		hour := rate(1, time.Hour)
		acquire := func(app, user, id, category string) {
			r := throttle.Request{App: app, User: user, ID: id, Horizon: 24 * time.Hour, Scopes: []throttle.Scope{{Name: throttle.General, Policy: hour}}}
			if category != "" {
				r.Scopes = []throttle.Scope{{Name: throttle.General}, {Name: category, Policy: hour}}
			}
			_, err := l.Acquire(t.Context(), r)
			must(t, err)
		}
		const odd = "a/b {}*%ü"
		for _, id := range []string{"1", "2"} {
			acquire("shop", "u1", id, "")
			acquire(odd, odd, id, "")
			acquire("", "no app", id, "")
			acquire("shop", "u2", id, odd)
			for i := range 20 {
				acquire("shop", fmt.Sprint("many", i), id, "news")
			}
		}
		acquire("shop", "content", "1", "")
		want := []string{"/no app", odd + "/" + odd, "shop/u1", "shop/u2"}
		for i := range 20 {
			want = append(want, fmt.Sprint("shop/many", i))
		}
		slices.Sort(want)
		var got []string
		must(t, l.Waiting(t.Context(), func(app, user string) error {
			got = append(got, app+"/"+user)
			return nil
		}))
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("there wait %q, want %q", got, want)
		}
		enough, told := errors.New("enough"), 0
		if err := l.Waiting(t.Context(), func(string, string) error { told++; return enough }); !errors.Is(err, enough) || told != 1 {
			t.Errorf("broken off after %d: %v", told, err)
		}
	})
}
