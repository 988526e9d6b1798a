package shard

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
)

// The first process writes its number of shards; a process with a different number gets an error.
func TestLayoutIsCheckedAgainstTheKey(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: redistest.Miniredis(t).Addr()})
	defer client.Close()
	for _, c := range []struct {
		prefix string
		n      int
		error  string // "" for none
	}{
		{"one", 0, ""},
		{"one", 1, ""},
		{"one", 8, "redis.shards is 8 here, and Redis has 1 shards (one:layout): set redis.shards: 1,"},
		{"some", 8, ""},
		{"some", 8, ""},
		{"some", 0, "redis.shards is 1 here, and Redis has 8 shards (some:layout): set redis.shards: 8,"},
		{"bad", 3, "3 shards: want a power of two up to 256"},
		{"bad", -8, "-8 shards: want"},
		{"bad", 512, "512 shards: want"},
		{"bad", 2, ""},
	} {
		l := NewLayout(client, c.prefix, c.n)
		for range 2 {
			if err := l.Check(t.Context()); (err == nil) != (c.error == "") || err != nil && !strings.HasPrefix(err.Error(), c.error) {
				t.Errorf("%+v: %v", c, err)
			}
		}
	}
}

func TestLayoutOnClusterHasEightShards(t *testing.T) {
	t.Parallel()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer client.Close()
	if n := len(NewLayout(client, "p", 0).Shards()); n != 8 {
		t.Errorf("%d shards", n)
	}
}

// While the key cannot be read, the configuration counts, and only the first caller waits.
// The next check finds a wrong number.
func TestLayoutIsCheckedAgainAfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &replies{hang: true}
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		client.AddHook(redistest.Around(r.answer))
		l := NewLayout(client, "p", 8)
		check := func(want error, wait time.Duration) {
			t.Helper()
			began := time.Now()
			err := l.Check(t.Context())
			if took := time.Since(began); !errors.Is(err, want) || took != wait {
				t.Errorf("%v after %s, want %v after %s", err, took, want, wait)
			}
			synctest.Wait()
		}
		check(nil, checkWithin)
		check(nil, 0)
		time.Sleep(checkAgain)
		check(nil, 0) // and begins a check
		r.hang = false
		time.Sleep(checkWithin + checkAgain)
		check(nil, 0) // and begins the next check
		wrong := new(WrongError)
		if err := l.Check(t.Context()); !errors.As(err, &wrong) || wrong.Kept != "16" {
			t.Error(err)
		}
		r.kept = "8"
		time.Sleep(checkAgain)
		check(wrong, 0)
		check(nil, 0)
		r.kept = "16"
		time.Sleep(time.Hour)
		check(nil, 0)
		check(nil, 0)
		if r.asked != 4 {
			t.Errorf("it asked %d times", r.asked)
		}
		_ = client.Close()
	})
}

// replies answer as a Redis with 16 shards, or with kept.
type replies struct {
	hang  bool
	kept  string
	asked int
}

func (r *replies) answer(ctx context.Context, cmds []redis.Cmder, _ func() error) error {
	r.asked++
	if r.hang {
		<-ctx.Done()
		return redistest.Fail(cmds, ctx.Err())
	}
	cmds[0].(*redis.StringCmd).SetVal(cmp.Or(r.kept, "16"))
	return nil
}
