//go:build unix

package throttle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
)

// Slots whose queue is lost are nobody's: they go with the next call of their category,
// and nobody waits behind them.
func TestSlotsOfALostQueue(t *testing.T) {
	t.Parallel()
	for _, others := range []bool{true, false} { // have a call first
		l := newClockedLine(t)
		policy := Policy{MinGap: time.Second}
		for i := range 21 {
			l.acquire(fmt.Sprint("n", i), policy)
		}
		l.server.Del("pushpace:{u}:queue:")
		raised := Policy{MinGap: policy.MinGap / 2}
		if others {
			if moved, err := l.limiter.Reschedule(t.Context(), l.in("other", "", raised, nil)); err != nil || len(moved) > 0 {
				t.Errorf("told: %v, %v", moved, err)
			}
		}
		if d := l.acquire("m", policy); d.Status != Deferred || d.Left > policy.MinGap+slack*time.Microsecond {
			t.Errorf("the first behind a lost queue: %+v", d)
		}
		for _, set := range []string{"booked", "queue:"} {
			if members, err := l.server.ZMembers("pushpace:{u}:" + set); err != nil || len(members) != 1 {
				t.Errorf("%s has %v, %v", set, members, err)
			}
		}
	}
}

// Where a key of a user's is of another type, a call fails. What the notification
// was let through with stays, as a slot counts until it is given back.
func TestAnAdmissionOutlivesAFailure(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client := server.Client(t)
	policy := Policy{MinGap: time.Minute}
	for name, key := range map[string]func(k *keys) string{
		"the queue":               func(k *keys) string { return k.catQueue },
		"all slots":               func(k *keys) string { return k.booked },
		"the category's timeline": func(k *keys) string { return k.catSent },
		"the limits":              func(k *keys) string { return k.limits() },
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

// A denied claim may have been counted by who came to wait meanwhile. Where all wait
// far away, nobody did, and none of their slots is looked at.
func TestADeniedClaimFarFromAllSlots(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	ctx := t.Context()
	l := NewRedis(client, Options{Timeout: redistest.Patience})
	t.Cleanup(func() { _ = l.Close() })
	general := Scope{General, Policy{MinGap: time.Second}}
	daily := Scope{"a", Policy{Rates: []Rate{{1, 24 * time.Hour}}}}
	for i := range 50 {
		r := Request{User: "u", ID: fmt.Sprint("n", i), Horizon: 100 * 24 * time.Hour, Scopes: []Scope{general, daily}}
		if _, err := l.Acquire(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	r := &Request{User: "u", ID: "late", Horizon: time.Hour, Scopes: []Scope{general}}
	user := l.user(r)
	now, err := client.Time(ctx).Result()
	if err == nil {
		err = client.ZAdd(ctx, user.keys.sent, redis.Z{Score: float64(now.UnixMicro()), Member: "late"}).Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.wait(ctx, r, user, denial{now.UnixMicro(), true}); err != nil {
		t.Fatal(err)
	}
	if user.others.Load() != nil { // whose keys it takes to give slots again
		t.Error("slots were given again")
	}
}
