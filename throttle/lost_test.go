//go:build unix

package throttle

import (
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
)

// Where a key of a user's is of another type, a call fails. What the notification
// was let through with stays, as a slot counts until it is given back.
func TestAnAdmissionOutlivesAFailure(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client := server.Client(t)
	policy := Policy{MinGap: time.Minute}
	for name, key := range map[string]func(k *keys) string{
		"all slots":               func(k *keys) string { return k.slots },
		"the category's timeline": func(k *keys) string { return k.catSent },
		"the lines":               func(k *keys) string { return k.lines() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := NewRedis(client, Options{Prefix: redistest.Prefix(), Timeout: 10 * time.Second})
			t.Cleanup(func() { _ = l.Close() })
			ctx := t.Context()
			r := Request{User: "u", ID: "n", Horizon: time.Hour, Scopes: []Scope{{General, policy}, {"c", policy}}}
			first, err := l.Acquire(ctx, r)
			if err != nil || first.Status != Granted {
				t.Fatal(first, err)
			}
			behind := r
			behind.ID = "behind"
			if d, err := l.Acquire(ctx, behind); err != nil || d.Status != Deferred {
				t.Fatal(d, err)
			}
			k := &l.user(&r).keys
			for what, call := range map[string]func() error{
				"acquire": func() error { _, err := l.wait(ctx, &r, l.user(&r), denial{}); return err },
				"cancel":  func() error { _, err := l.Cancel(ctx, r); return err },
			} {
				if err := client.Set(ctx, key(k), "x", time.Minute).Err(); err != nil {
					t.Fatal(err)
				}
				err := call()
				if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
					t.Errorf("%s: %v", what, err)
				}
				if at := client.ZScore(ctx, k.sent, member("n")).Val(); at != float64(first.At.UnixMicro()) {
					t.Errorf("after %s the admission of %v is at %v", what, first.At, at)
				}
				if client.PTTL(ctx, k.sent).Val() <= 0 {
					t.Errorf("after %s the admissions have no expiry", what)
				}
			}
		})
	}
}
