package meter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/pushpace/pushpace/internal/redistest"
)

// shareAt is share.lua with a clock set by the test.
var shareAt = redis.NewScript(strings.Replace(shareSource, "redis.call('TIME')", "{ARGV[7], ARGV[8]}", 1))

// A claimed is a number that a test divides into shares. Only the test sets its clock.
type claimed struct {
	client redis.UniversalClient
	key    string
	now    int64
}

func newClaimed(client redis.UniversalClient) *claimed {
	return &claimed{client, redistest.Prefix() + ":share", time.Now().Add(time.Hour).UnixMicro()} // the key lives longer than the test
}

func (n *claimed) claim(t rapid.TB, c Claim) int {
	t.Helper()
	got, err := shareAt.Run(context.Background(), n.client, []string{n.key}, c.Holder, c.Number, c.Limit, c.Holds, c.Wants,
		c.Life.Microseconds(), n.now/1e6, n.now%1e6).Int()
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// A part is a holder's part of a number; its lease ends at until, in µs.
type part struct{ number, held, wants, until int64 }

// parts returns the parts with a valid lease, by holder.
func (n *claimed) parts(t rapid.TB) map[string]part {
	t.Helper()
	all, err := n.client.HGetAll(context.Background(), n.key).Result()
	parts := map[string]part{}
	for holder, text := range all {
		var p part
		_, failed := fmt.Sscan(text, &p.number, &p.held, &p.wants, &p.until)
		if err = errors.Join(err, failed); p.until > n.now {
			parts[holder] = p
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

// After any claims the parts do not exceed the number. A part counts while its holder may still use it.
// An outdated claim changes nothing.
func TestPartsNeverExceedNumber(t *testing.T) {
	t.Parallel()
	client := redistest.Connect(t, redistest.Shared(t).Options())
	rapid.Check(t, func(rt *rapid.T) {
		n, limit := newClaimed(client), rapid.IntRange(0, 12).Draw(rt, "limit")
		for range rapid.IntRange(1, 30).Draw(rt, "claims") {
			n.now += rapid.SampledFrom([]int64{0, 1, 200_000, 999_999, 1_000_000, 3_000_000}).Draw(rt, "µs")
			c := Claim{
				Holder: rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(rt, "holder"),
				Number: rapid.Int64Range(1, 20).Draw(rt, "number"), Limit: limit,
				Holds: rapid.IntRange(0, 14).Draw(rt, "holds"), Wants: rapid.IntRange(0, 14).Draw(rt, "wants"),
				Life: rapid.SampledFrom([]time.Duration{time.Microsecond, time.Second, 3 * time.Second}).Draw(rt, "life"),
			}
			before := n.parts(rt)
			got, after := n.claim(rt, c), n.parts(rt)
			own, known := before[c.Holder]
			if outdated := known && own.number >= c.Number; outdated || got < 0 {
				if !outdated || got != -1 || !maps.Equal(after, before) {
					rt.Fatalf("%+v: %d, and the parts are %v, before %v", c, got, after, before)
				}
				continue
			}
			is := after[c.Holder]
			sum := int64(0)
			for holder, p := range after {
				if sum += p.held; holder != c.Holder && p != before[holder] {
					rt.Fatalf("%+v: the part of %s is %v, was %v", c, holder, p, before[holder])
				}
			}
			uses := int64(0) // a holder that Redis has lost may use a part that others have meanwhile
			if known {
				uses = min(int64(c.Holds), own.held)
			}
			if sum > int64(limit) || is.held < max(uses, int64(got)) || got > c.Wants {
				rt.Fatalf("%+v: the part is %d, and the parts of %d are %v, before %v", c, got, limit, after, before)
			}
			if is != (part{}) && (is.number != c.Number || is.wants != int64(c.Wants) || is.until != n.now+c.Life.Microseconds()) {
				rt.Fatalf("%+v is stored as %v", c, is)
			}
		}
	})
}

// Parts are equal, but a holder that wants less leaves the rest to the others.
func TestSharesAreFair(t *testing.T) {
	t.Parallel()
	client := redistest.Connect(t, redistest.Shared(t).Options())
	for _, c := range []struct {
		limit int
		wants []int
		fair  string
	}{
		{10, []int{10}, "[10]"},
		{10, []int{9, 2}, "[8 2]"},
		{10, []int{9, 9, 9}, "[3 3 4]"},
		{12, []int{1, 0, 9, 5}, "[1 0 6 5]"},
		{2, []int{9, 9, 9, 9}, "[0 0 1 1]"},
		{-1, []int{9, 9}, "[0 0]"},
	} {
		n, got := newClaimed(client), make([]int, len(c.wants))
		for round := range int64(3) { // a part shrinks at its holder's next claim
			for i, wants := range c.wants {
				got[i] = n.claim(t, Claim{Holder: string(rune('a' + i)), Number: round + 1, Limit: c.limit, Holds: got[i], Wants: wants, Life: time.Minute})
			}
		}
		if fmt.Sprint(got) != c.fair {
			t.Errorf("of %d, wanted %v: %v, want %s", c.limit, c.wants, got, c.fair)
		}
	}
}

// A dead holder's part goes to other holders after the lease's life and a renewal; a new holder
// gets its part after three renewals.
func TestPartsOfDeadHolderAreReassigned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 100
		shares := NewRedisShares(redistest.InBubble(t), "")
		a, b := NewLease(shares, "n", limit), NewLease(shares, "n", limit)
		parts := map[*Lease]int{}
		renew := func(l *Lease) {
			t.Helper()
			asked := time.Now()
			part, until, err := l.Renew(t.Context(), parts[l], limit)
			if parts[l] = part; err != nil || until.Sub(asked) <= 3*LeaseEvery || until.Sub(asked) >= 4*LeaseEvery {
				t.Fatalf("until %s, %v", until.Sub(asked), err)
			}
		}
		want := func(of *Lease, part int) {
			t.Helper()
			if parts[of] != part {
				t.Errorf("a part of %d, want %d", parts[of], part)
			}
		}
		renew(a)
		want(a, limit)
		renew(b)
		want(b, 0) // a holds all of it
		time.Sleep(LeaseEvery)
		renew(a)
		want(a, limit/2)
		renew(b)
		want(b, 0) // a may still use its part
		time.Sleep(LeaseEvery)
		renew(a)
		renew(b)
		want(b, limit/2)

		if err := b.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		renew(a)
		want(a, limit)
		died := time.Now()
		c := NewLease(shares, "n", limit)
		for parts[c] == 0 {
			time.Sleep(LeaseEvery)
			renew(c)
		}
		want(c, limit)
		if took := time.Since(died); took > 5*LeaseEvery || took >= 4*time.Second {
			t.Errorf("what a dead one had is another's after %s", took)
		}
	})
}

// After Redis has lost its data, the holders that renew within one interval do not exceed the
// number.
func TestLostShareDataKeepsLimit(t *testing.T) {
	t.Parallel()
	n := newClaimed(redistest.Connect(t, redistest.Shared(t).Options()))
	for _, holder := range []string{"a", "b"} {
		if got := n.claim(t, Claim{Holder: holder, Number: 7, Limit: 10, Holds: 5, Wants: 10, Life: time.Second}); got != 5 {
			t.Errorf("%s held 5, and gets %d", holder, got)
		}
	}
}

// On Redis a share's key is deleted when its last holder releases its part, and foreign data in the
// key is an error.
func TestReleasedShareIsDeleted(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		ctx, shares := t.Context(), NewRedisShares(client, "test")
		const key = "test:{share/shop%2Fapns}"
		l := NewLease(shares, "shop/apns", 9)
		l.within = redistest.Patience // a busy machine may take longer than a renewal
		if part, _, err := l.Renew(ctx, 0, 4); part != 4 || err != nil {
			t.Fatal(part, err)
		}
		if left := client.PTTL(ctx, key).Val(); left <= 0 || left > 4*LeaseEvery+time.Millisecond {
			t.Errorf("the key lives for %s", left)
		}
		l.claim.Number-- // the answer was lost, and the claim is sent again
		if _, _, err := l.Renew(ctx, 4, 2); !errors.Is(err, errStaleClaim) {
			t.Errorf("a claim was taken twice: %v", err)
		}
		if err := client.ScriptFlush(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		if err := l.Release(ctx); err != nil || client.Exists(ctx, key).Val() != 0 {
			t.Errorf("a share that nobody has is still there: %v", err)
		}
		if err := client.Set(ctx, key, "another's", 0).Err(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := l.Renew(ctx, 0, 4); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("a key of another type: %v", err)
		}
	})
}
