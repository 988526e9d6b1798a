//go:build unix

package throttle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/redistest"
)

// Redis quotes the keys of an unknown command. No log, probe or snapshot may show these keys, and a
// user's name in the message must not make the error look like an error about that user's keys.
func TestOutageHidesUserNames(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Args("--rename-command", "ZADD", "", "--rename-command", "EVALSHA", ""))
	for _, user := range []string{"canary-ada", "WRONGTYPE canary-ada"} {
		log, text := outageLog()
		o := WithOutage(outageRedis(t, server.Options(), redistest.Patience), Closed, OutageOptions{Log: log})
		r := outageRequest("n")
		r.User = user
		_, err := o.Acquire(t.Context(), r)
		if !errors.Is(err, ErrUnavailable) || o.Stats().Since.IsZero() {
			t.Fatalf("%v, %+v", err, o.Stats())
		}
		var reply redis.Error
		if !errors.As(err, &reply) || !strings.Contains(reply.Error(), "canary-ada") {
			t.Errorf("Redis quotes no key: %v", reply)
		}
		if told := o.Stats().Cause.Error() + text.String(); strings.Contains(told, "canary") || !strings.Contains(told, "unknown command") {
			t.Errorf("told: %s", told)
		}
	}
}

// limiterWithRights returns a limiter that connects as a Redis user of its own.
func limiterWithRights(t *testing.T, server *redistest.Server, name string) *Redis {
	t.Helper()
	admin := server.Client(t)
	must(t, admin.Do(t.Context(), "ACL", "SETUSER", name, "on", ">secret", "~*", "+@all").Err())
	o := server.Options()
	o.Username, o.Password = name, "secret"
	client := redistest.Connect(t, o)
	client.AddHook(pipeline.Refusals{})
	return newLimiter(t, client, Options{Prefix: redistest.Prefix(), Timeout: 10 * time.Second})
}

// TestRedisErrorStartsOutage makes Redis return errors that affect every user: the outage mode
// applies until the error ends.
func TestRedisErrorStartsOutage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		refuse, mend []string
		says         string
	}{
		{"rights", []string{"ACL", "SETUSER", "lim", "-zadd"}, []string{"ACL", "SETUSER", "lim", "+@all"}, "can't run this command"},
		{"rights of scripts", []string{"ACL", "SETUSER", "lim", "-evalsha", "-eval", "-multi"}, []string{"ACL", "SETUSER", "lim", "+@all"}, "NOPERM"},
		{"another password", []string{"ACL", "SETUSER", "lim", "resetpass", ">changed"}, []string{"ACL", "SETUSER", "lim", ">secret"}, "WRONGPASS"},
		{"replicas", []string{"CONFIG", "SET", "min-replicas-to-write", "1"}, []string{"CONFIG", "SET", "min-replicas-to-write", "0"}, "NOREPLICAS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Args("--enable-protected-configs", "yes"))
			l := limiterWithRights(t, server, "lim")
			ask := func(args []string) {
				t.Helper()
				do := make([]any, len(args))
				for i, arg := range args {
					do[i] = arg
				}
				must(t, server.Client(t).Do(t.Context(), do...).Err())
			}
			log, text := outageLog()
			closed, open := WithOutage(l, Closed, OutageOptions{Log: log}), WithOutage(l, Open, OutageOptions{})
			r := Request{User: "u", ID: "n", Horizon: time.Hour, Scopes: []Scope{{General, Policy{MinGap: time.Minute}}}}
			if d, err := closed.Acquire(t.Context(), r); err != nil || d.Status != Granted {
				t.Fatalf("before: %+v, %v", d, err)
			}
			ask(tt.refuse)
			_ = server.Client(t).Do(t.Context(), "CLIENT", "KILL", "USER", "lim").Err() // so that the limiter logs in again
			for i := range 3 {
				r.ID = string(rune('a' + i))
				if d, err := closed.Acquire(t.Context(), r); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("closed: %+v, %v", d, err)
				}
				if d, err := open.Acquire(t.Context(), r); err != nil || d.Status != Granted || !d.Unchecked {
					t.Errorf("open: %+v, %v", d, err)
				}
			}
			if stats := closed.Stats(); stats.Since.IsZero() || stats.Cause == nil || stats.Failed != 3 {
				t.Errorf("closed: %+v", stats)
			}
			if stats := open.Stats(); stats.Unchecked != 3 {
				t.Errorf("open: %+v", stats)
			}
			if lines := strings.Split(strings.TrimSpace(text.String()), "\n"); len(lines) != 1 || !strings.Contains(lines[0], tt.says) {
				t.Errorf("logged %q", lines)
			}
			ask(tt.mend)
			for {
				d, err := closed.Acquire(t.Context(), r)
				if err == nil {
					if d.Status != Deferred {
						t.Errorf("mended: %+v", d)
					}
					break
				}
				if !errors.Is(err, ErrUnavailable) || t.Context().Err() != nil {
					t.Fatal(err)
				}
			}
			if stats := closed.Stats(); !stats.Since.IsZero() || stats.Cause != nil {
				t.Errorf("mended: %+v", stats)
			}
		})
	}
}

// TestForeignKeysFailOneUserOnly puts foreign data into a user's keys: only that user's calls
// fail, in either outage mode.
func TestForeignKeysFailOneUserOnly(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	admin := server.Client(t)
	ctx := context.Background()
	for name, spoil := range map[string]func(k *keys) error{
		"admissions of another type": func(k *keys) error { return admin.Set(ctx, k.sent, "x", 0).Err() },
		"slots of another type":      func(k *keys) error { return admin.Set(ctx, k.slots, "x", 0).Err() },
		"a category's admissions":    func(k *keys) error { return admin.Set(ctx, k.catSent, "x", 0).Err() },
		"lines of another type":      func(k *keys) error { return admin.Set(ctx, k.lines(), "x", 0).Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLimiter(t, redistest.Connect(t, server.Options()), Options{Prefix: redistest.Prefix(), Timeout: 10 * time.Second})
			open := WithOutage(l, Open, OutageOptions{})
			policy := Policy{MinGap: time.Minute}
			bad := Request{User: "bad", ID: "goes", Horizon: time.Hour, Scopes: []Scope{{General, policy}, {"c", policy}}}
			goes, err := l.Acquire(ctx, bad)
			must(t, err)
			bad.ID = "waits"
			must(t, errOf(l.Acquire(ctx, bad)))
			k := &l.user(&bad).keys
			must(t, spoil(k))
			bad.ID = "goes"
			if _, err := l.wait(ctx, &bad, l.user(&bad), deniedClaim{}); err == nil {
				t.Error("asked again, it is decided")
			}
			if _, err := l.Cancel(ctx, bad); err == nil {
				t.Error("it is given back")
			}
			if name != "admissions of another type" {
				if at := admin.ZScore(ctx, k.sent, member("goes")).Val(); at != float64(goes.At.UnixMicro()) || admin.PTTL(ctx, k.sent).Val() <= 0 {
					t.Errorf("the admission of %v is at %v", goes.At, at)
				}
			}
			bad.ID = "new"
			for range 2 {
				if d, err := open.Acquire(ctx, bad); err == nil || errors.Is(err, ErrUnavailable) || d.Unchecked {
					t.Errorf("the user's own: %+v, %v", d, err)
				}
				bad.ID += "n"
			}
			other := Request{User: "other", ID: "n", Scopes: []Scope{{General, policy}}}
			if d, err := open.Acquire(ctx, other); err != nil || d.Status != Granted || d.Unchecked {
				t.Errorf("another user's: %+v, %v", d, err)
			}
			if stats := open.Stats(); stats.Outages != 0 {
				t.Errorf("%+v", stats)
			}
		})
	}
}

// One page of SCAN is enough to test the permission.
func TestTryScansOnePage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	pipe := client.Pipeline()
	for i := range 5 * scanPage {
		pipe.Set(t.Context(), fmt.Sprint("another's-", i), "", 0)
	}
	must(t, errOf(pipe.Exec(t.Context())))
	must(t, outageRedis(t, server.Options(), redistest.Patience).Try(t.Context()))
	stats, err := client.Info(t.Context(), "commandstats").Result()
	if err != nil || !strings.Contains(stats, "cmdstat_scan:calls=1,") {
		t.Errorf("%v\n%s", err, stats)
	}
}
