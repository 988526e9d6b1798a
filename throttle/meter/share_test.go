package meter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/pushpace/pushpace/internal/redistest"
)

// shareAt is share.lua with a clock set by the test.
var shareAt = redis.NewScript(strings.Replace(shareSource, "redis.call('TIME')", "{ARGV[7], ARGV[8]}", 1))

// held maps each holder to its part.
func (p parts) held(now int64) map[string]string {
	all := map[string]string{}
	for holder, of := range p {
		if of.until > now {
			all[holder] = fmt.Sprint(of.number, of.held, of.wants, of.until)
		}
	}
	return all
}

// For any claims, the script divides like the model, and the parts never exceed the number.
func TestShareScriptEqualsModel(t *testing.T) {
	t.Parallel()
	client := redistest.Connect(t, redistest.Shared(t).Options())
	ctx := context.Background()
	var run atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		key := fmt.Sprint(redistest.Prefix(), ":share:", run.Add(1))
		model := parts{}
		now := time.Now().Add(time.Hour).UnixMicro() // the key lives longer than the test
		limit := rapid.IntRange(0, 12).Draw(rt, "limit")
		for range rapid.IntRange(1, 30).Draw(rt, "claims") {
			now += rapid.SampledFrom([]int64{0, 1, 200_000, 999_999, 1_000_000, 3_000_000}).Draw(rt, "µs")
			c := Claim{
				Holder: rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(rt, "holder"),
				Number: rapid.Int64Range(1, 20).Draw(rt, "number"), Limit: limit,
				Holds: rapid.IntRange(0, 14).Draw(rt, "holds"), Wants: rapid.IntRange(0, 14).Draw(rt, "wants"),
				Life: rapid.SampledFrom([]time.Duration{time.Microsecond, time.Second, 3 * time.Second}).Draw(rt, "life"),
			}
			want := model.renew(now, c)
			got, err := shareAt.Run(ctx, client, []string{key}, c.Holder, c.Number, c.Limit, c.Holds, c.Wants,
				c.Life.Microseconds(), now/1e6, now%1e6).Int64()
			if err != nil || got != want {
				rt.Fatalf("%+v: the script answers %d, %v, the model %d", c, got, err, want)
			}
			sum := int64(0)
			for _, of := range model {
				sum += of.held
			}
			if sum > int64(limit) {
				rt.Fatalf("%+v: %d of %d are held: %v", c, sum, limit, model)
			}
			all, err := client.HGetAll(ctx, key).Result()
			if err != nil {
				rt.Fatal(err)
			}
			maps.DeleteFunc(all, func(_, of string) bool {
				until, _ := strconv.ParseInt(of[strings.LastIndexByte(of, ' ')+1:], 10, 64)
				return until <= now
			})
			if want := model.held(now); !maps.Equal(all, want) {
				rt.Fatalf("%+v: the script has %v, the model %v", c, all, want)
			}
		}
	})
}

// Parts are equal, but a holder that wants less leaves the rest to the others.
func TestSharesAreFair(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit int64
		wants []int64
		fair  string
	}{
		{10, []int64{10}, "[10]"},
		{10, []int64{9, 2}, "[8 2]"},
		{10, []int64{9, 9, 9}, "[3 3 4]"},
		{12, []int64{1, 0, 9, 5}, "[1 0 6 5]"},
		{2, []int64{9, 9, 9, 9}, "[0 0 1 1]"},
		{-1, []int64{9, 9}, "[0 0]"},
	} {
		p, got := parts{}, []int64{}
		for i, wants := range c.wants {
			p[string(rune('a'+i))] = part{wants: wants}
		}
		for i := range c.wants {
			got = append(got, p.fair(c.limit, string(rune('a'+i))))
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
		shares := NewMemoryShares()
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
	p, life := parts{}, time.Second
	if got := p.renew(1, Claim{Holder: "a", Number: 7, Limit: 10, Holds: 5, Wants: 10, Life: life}); got != 5 {
		t.Errorf("the first holder gets %d", got)
	}
	if got := p.renew(1, Claim{Holder: "b", Number: 7, Limit: 10, Holds: 5, Wants: 10, Life: life}); got != 5 {
		t.Errorf("who comes next has %d", got)
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
