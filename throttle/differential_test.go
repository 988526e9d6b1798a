package throttle

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"
)

// start is the first instant of tests whose clock is not the real one.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fakeClock is a clock that is set.
type fakeClock struct{ micros atomic.Int64 }

func newFakeClock() *fakeClock {
	c := new(fakeClock)
	c.micros.Store(start.UnixMicro())
	return c
}

func (c *fakeClock) now() time.Time          { return time.UnixMicro(c.micros.Load()) }
func (c *fakeClock) advance(d time.Duration) { c.micros.Add(d.Microseconds()) }

func genPolicy(rt *rapid.T, label string) Policy {
	var p Policy
	gaps := []time.Duration{0, 0, time.Millisecond, 300 * time.Millisecond, time.Second, 7 * time.Second}
	p.MinGap = rapid.SampledFrom(gaps).Draw(rt, label+" gap")
	rates := []Rate{{1, time.Second}, {2, 10 * time.Second}, {3, 5 * time.Second}, {5, 20 * time.Second}, {1, 40 * time.Second}, {4, 1500 * time.Millisecond}}
	p.Rates = rapid.SliceOfNDistinct(rapid.SampledFrom(rates), 0, 2, func(r Rate) time.Duration { return r.Period }).Draw(rt, label+" rates")
	return p
}

// TestTheScriptDecidesAsTheModel runs the same calls on booking.lua and on the model.
func TestTheScriptDecidesAsTheModel(t *testing.T) {
	t.Parallel()
	scriptAndModel(t, bookingScript)
}

// TestTheScriptDecidesAsTheModelFromPages has the script give few slots again in a
// call. The model gives all at once, so that it can judge only the calls that leave
// nothing and go on with nothing; it takes over the state that the others leave, in
// which the sets have to agree.
func TestTheScriptDecidesAsTheModelFromPages(t *testing.T) {
	t.Parallel()
	if left := scriptAndModel(t, onePage); left == 0 && !testing.Short() {
		t.Error("no call has left slots to later ones")
	}
}

// scriptAndModel answers how many calls have left slots to later ones.
func scriptAndModel(t *testing.T, booking *redis.Script) (left int) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	ctx := context.Background()
	var run atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		clock := newFakeClock()
		const horizon = time.Hour // longer than a run, so that neither forgets
		script := NewRedis(client, Options{Prefix: fmt.Sprint("run", run.Add(1)), Horizon: horizon, Timeout: time.Minute, Now: clock.now})
		script.booking = booking
		limits := func(field string) string { return server.HGet(script.prefix+":{u}:limits", field) }
		rest := func() bool { return limits("rest") != "" }
		memory := NewMemory(MemoryOptions{Horizon: horizon, Now: clock.now})
		policies := map[string]Policy{}
		for _, name := range []string{General, "a", "b"} {
			policies[name] = genPolicy(rt, name)
		}
		for i := range rapid.IntRange(1, 40).Draw(rt, "calls") {
			if rapid.IntRange(0, 2).Draw(rt, "pass") > 0 {
				clock.advance(time.Duration(rapid.SampledFrom([]int{1, 1000, 2500, 100_000, 299_999, 1_000_000, 3_000_000, 30_000_000}).Draw(rt, "µs")) * time.Microsecond)
			}
			server.SetTime(clock.now())
			n := rapid.IntRange(0, 17).Draw(rt, "id")
			r := Request{User: "u", ID: fmt.Sprint("n", n)}
			names := [][]string{{General}, {"a"}, {General, "a"}, {General, "a"}, {General, "b"}, {General}}[n%6]
			if n%6 == 5 {
				r.Category = "c"
			}
			if accepted := rapid.IntRange(-3, 9).Draw(rt, "accepted"); accepted >= 0 {
				r.Accepted = start.Add(time.Duration(accepted) * time.Second)
			}
			for _, name := range names {
				if rapid.IntRange(0, 30).Draw(rt, "change") == 0 {
					policies[name] = genPolicy(rt, name)
				}
				r.Scopes = append(r.Scopes, Scope{name, policies[name]})
			}
			r.Wait = rapid.SampledFrom([]time.Duration{0, 0, 0, 1200 * time.Millisecond, 5 * time.Second}).Draw(rt, "wait")
			r.Horizon = rapid.SampledFrom([]time.Duration{0, 10 * time.Second, time.Hour, time.Hour, time.Hour}).Draw(rt, "horizon")
			r.Report = rapid.Bool().Draw(rt, "report")
			r.MaxBooked = rapid.SampledFrom([]int{0, 0, 0, 5, 8}).Draw(rt, "most")
			r.Returned = rapid.Bool().Draw(rt, "returned")
			if rapid.IntRange(0, 1).Draw(rt, "at a slot") == 0 {
				timeline, err := memory.Timeline(ctx, r)
				if err != nil {
					rt.Fatal(err)
				}
				for _, b := range timeline.Bookings {
					if b.ID == r.ID && b.Slot.After(clock.now()) {
						clock.advance(b.Slot.Sub(clock.now()))
						server.SetTime(clock.now())
					}
				}
			}
			var got, want Decision
			var err, err2 error
			paged, changed, trips := rest(), limits("@"), script.RoundTrips()
			var line *Line
			op := rapid.SampledFrom([]string{"acquire", "acquire", "acquire", "acquire", "peek", "cancel", "reschedule", "inherit"}).Draw(rt, "op")
			switch op {
			case "acquire":
				got, err = memory.Acquire(ctx, r)
				want, err2 = script.wait(ctx, &r, script.user(&r), denial{})
			case "peek":
				got, err = memory.Peek(ctx, r)
				want, err2 = script.Peek(ctx, r)
			case "cancel":
				r.Used = rapid.IntRange(0, 3).Draw(rt, "used") == 0
				got.Moved, err = memory.Cancel(ctx, r)
				want.Moved, err2 = script.Cancel(ctx, r)
			case "inherit":
				from := fmt.Sprint("n", (n+6)%18)
				got.Moved, err = memory.Inherit(ctx, r, from)
				want.Moved, err2 = script.Inherit(ctx, r, from)
			case "reschedule":
				if last := &r.Scopes[len(r.Scopes)-1]; last.Name != General && rapid.IntRange(0, 2).Draw(rt, "exempt") == 0 {
					last.Policy = Policy{Exempt: true}
				}
				got.Moved, err = memory.Reschedule(ctx, r)
				if line, err2 = script.Line(ctx, r); err2 != nil {
					rt.Fatal(err2)
				}
				want.Moved, err2 = script.Reschedule(ctx, r)
				paged = paged || script.RoundTrips() > trips+1
			}
			if err != nil || err2 != nil {
				rt.Fatal(err, err2)
			}
			if rest() {
				left++
			}
			// what finds limits changed may leave slots, and go on with them at once
			paged = paged || rest() || booking != bookingScript && limits("@") != changed
			if fault := came(ctx, line, script, r); fault != "" && !paged {
				rt.Fatalf("call %d, %s %+v: foreseen: %s", i, op, r, fault)
			}
			if paged {
				if fault := takeOver(ctx, memory, script); fault != "" {
					rt.Fatalf("call %d, %s %+v: %s", i, op, r, fault)
				}
				continue
			}
			sortBookings(got.Moved)
			sortBookings(want.Moved)
			if !reflect.DeepEqual(got, want) {
				rt.Fatalf("call %d, %s %+v:\nmemory %+v\nscript %+v", i, op, r, got, want)
			}
			if general, _ := r.policies(); general == nil {
				r.Scopes = []Scope{{General, policies[General]}, r.Scopes[0]}
			}
			t1, err := memory.Timeline(ctx, r)
			t2, err2 := script.Timeline(ctx, r)
			if err != nil || err2 != nil {
				rt.Fatal(err, err2)
			}
			t2.Now = time.UnixMicro(t2.Now.UnixMicro())
			if !reflect.DeepEqual(t1, t2) {
				rt.Fatalf("call %d, %s %+v:\nmemory %+v\nscript %+v", i, op, r, t1, t2)
			}
		}
	})
	return left
}

// came returns in what a reschedule by the request differs from what the line before it
// foresaw, if there is one.
func came(ctx context.Context, before *Line, l *Redis, r Request) (fault string) {
	if before == nil {
		return ""
	}
	after, err := l.Line(ctx, r)
	if err != nil {
		return err.Error()
	}
	slots := after.model.slots()
	for _, m := range before.Moves(after.Now) {
		of := slotOf{m.Category, m.ID}
		if at, waits := slots[of]; waits == m.Free || waits && at != m.To.UnixMicro() {
			return fmt.Sprintf("%+v, and it is %v", m, micros(at))
		}
		delete(slots, of)
	}
	if len(slots) > 0 || before.Waiting < after.Waiting {
		return fmt.Sprintf("not %v, %d of %d", slots, after.Waiting, before.Waiting)
	}
	return ""
}

// takeOver has the model's user be what the sets say, and answers in what they
// contradict each other.
func takeOver(ctx context.Context, m *Memory, l *Redis) (fault string) {
	base := l.prefix + ":{u}:"
	entries := func(set string) []redis.Z { return l.client.ZRangeWithScores(ctx, base+set, 0, -1).Val() }
	u := m.user(&Request{User: "u"})
	*u = *newModel()
	for _, scope := range []string{General, "a", "b"} {
		set := "sent:" + scope
		if scope == General {
			set = "sent"
		}
		for _, e := range entries(set) {
			u.sent[scope] = append(u.sent[scope], admitted{e.Member.(string), int64(e.Score)})
		}
	}
	for _, category := range []string{"", "a", "b", "c"} {
		if at := l.client.Get(ctx, base+"beyond:"+category).Val(); at != "" {
			u.beyond[category], _ = strconv.ParseInt(at, 10, 64)
		}
	}
	limits := l.client.HGetAll(ctx, base+"limits").Val()
	if at, err := strconv.ParseInt(limits["@"], 10, 64); err == nil {
		u.changed = at
	}
	all := map[string]float64{}
	for _, e := range entries("booked") {
		all[e.Member.(string)] = e.Score
	}
	for name, words := range limits {
		category, ok := strings.CutPrefix(name, "c")
		if !ok {
			continue
		}
		slots, queue := entries("booked:"+category), entries("queue:"+category)
		if len(slots) != len(queue) {
			return fmt.Sprintf("%d slots for %d of %q", len(slots), len(queue), category)
		}
		c := &class{policy: policyOf(words)}
		for k, e := range slots {
			if at, ok := all[e.Member.(string)]; !ok || at != e.Score {
				return fmt.Sprintf("slot %v of %q is %v among all", e, category, at)
			}
			delete(all, e.Member.(string))
			c.slots = append(c.slots, int64(e.Score))
			c.queue = append(c.queue, waiter{queue[k].Member.(string), int64(queue[k].Score)})
		}
		if len(c.slots) > 0 {
			u.classes[category] = c
		}
	}
	if len(all) > 0 {
		return fmt.Sprintf("slots of no category: %v", all)
	}
	if len(u.classes) > 0 {
		u.general = policyOf(limits["g"])
	}
	return ""
}
