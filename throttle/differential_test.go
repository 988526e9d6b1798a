package throttle

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
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
func (c *fakeClock) process() process        { return process{c.now(), c.now} }
func (c *fakeClock) advance(d time.Duration) { c.micros.Add(d.Microseconds()) }

// genPolicy draws limits of seconds, or of that part of these.
func genPolicy(rt *rapid.T, label string, scale time.Duration) Policy {
	var p Policy
	gaps := []time.Duration{0, 0, time.Millisecond * scale, 300 * time.Millisecond, time.Second, 7 * time.Second}
	p.MinGap = rapid.SampledFrom(gaps).Draw(rt, label+" gap") / scale
	rates := []Rate{{1, time.Second}, {2, 10 * time.Second}, {3, 5 * time.Second}, {5, 20 * time.Second}, {1, 40 * time.Second}, {4, 1500 * time.Millisecond}}
	most := rapid.SampledFrom([]int{1, 2, 2, 4}).Draw(rt, label+" most rates")
	p.Rates = rapid.SliceOfNDistinct(rapid.SampledFrom(rates), 0, most, func(r Rate) time.Duration { return r.Period }).Draw(rt, label+" rates")
	for i := range p.Rates {
		p.Rates[i].Period /= scale
	}
	return p
}

// TestTheScriptDecidesAsTheModel runs the same calls on booking.lua and on the model.
func TestTheScriptDecidesAsTheModel(t *testing.T) {
	t.Parallel()
	scriptAndModel(t, false)
}

// TestTheScriptDecidesAsTheModelAnywhere has them begin with what histories seldom lead
// to, and make few calls.
func TestTheScriptDecidesAsTheModelAnywhere(t *testing.T) {
	t.Parallel()
	for range anywhere {
		scriptAndModel(t, true)
	}
}

func scriptAndModel(t *testing.T, anywhere bool) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	ctx := context.Background()
	var run atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		clock := newFakeClock()
		const horizon = time.Hour // longer than a run, so that neither forgets
		script := NewRedis(client, Options{Prefix: fmt.Sprint("run", run.Add(1)), Horizon: horizon, Timeout: time.Minute, Now: clock.now})
		defer func() { _ = script.Close() }()
		memory := NewTwin(TwinOptions{Horizon: horizon, Now: clock.now})
		policies := map[string]Policy{}
		scale := rapid.SampledFrom([]time.Duration{1, 1, 100}).Draw(rt, "scale")
		quietly := newGenQuiet(rt)
		for _, name := range []string{General, "a", "b"} {
			policies[name] = quietly.policy(genPolicy(rt, name, scale))
		}
		calls, passes, changes := 40, 2, 30
		anonymous := rapid.Bool().Draw(rt, "of no known acceptance")
		only := rapid.SampledFrom([]int{-1, -1, 0, 1, 2, 5}).Draw(rt, "only one kind") // whose line is of one category
		if anywhere {
			calls, passes, changes = 3, 1, 3
			anyState(rt, script, policies, quietly, scale, only)
			u, fault := stateOf(ctx, script)
			if fault != "" {
				rt.Fatal(fault)
			}
			*memory.user(&Request{User: "u"}) = *u
		}
		for i := range rapid.IntRange(1, calls).Draw(rt, "calls") {
			if rapid.IntRange(0, 2).Draw(rt, "pass") < passes {
				clock.advance(time.Duration(rapid.SampledFrom([]int{1, 1000, 2500, 100_000, 299_999, 1_000_000, 3_000_000, 30_000_000}).Draw(rt, "µs")) * time.Microsecond / scale)
			}
			server.SetTime(clock.now())
			n := rapid.IntRange(0, 23).Draw(rt, "id")
			if only >= 0 {
				n = 6*(n/2) + only
			}
			r := Request{User: "u", ID: fmt.Sprint("n", n), Category: kinds[n%6].category}
			names := kinds[n%6].scopes
			if accepted := rapid.IntRange(-3, 9).Draw(rt, "accepted"); accepted >= 0 && !anonymous {
				r.Accepted = start.Add(time.Duration(accepted) * time.Second)
			}
			for _, name := range names {
				if rapid.IntRange(0, changes).Draw(rt, "change") == 0 {
					policies[name] = quietly.policy(genPolicy(rt, name, scale))
				}
				r.Scopes = append(r.Scopes, Scope{name, policies[name]})
			}
			r.Wait = rapid.SampledFrom([]time.Duration{0, 0, 0, 1200 * time.Millisecond, 5 * time.Second}).Draw(rt, "wait") / scale
			r.Horizon = rapid.SampledFrom([]time.Duration{0, 10 * time.Second, time.Hour, time.Hour, time.Hour}).Draw(rt, "horizon")
			r.Report = rapid.Bool().Draw(rt, "report")
			r.MaxBooked = rapid.SampledFrom([]int{0, 0, 0, 1, 3, 5, 8}).Draw(rt, "most")
			quietly.request(&r)
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
			var several, fromScript string // decisions
			var err, err2 error
			var line *Line
			tails := memory.user(&r).tails()
			op := rapid.SampledFrom([]string{"acquire", "acquire", "acquire", "acquire", "acquire all", "acquire all", "cancel", "reschedule", "inherit"}).Draw(rt, "op")
			switch op {
			case "acquire":
				var claim denial
				sent := memory.user(&r).sent
				if k := slices.IndexFunc(sent[names[0]], func(a admitted) bool { return a.id == r.ID }); k >= 0 {
					switch at := sent[names[0]][k].at; rapid.IntRange(0, 4).Draw(rt, "claim") {
					case 0: // which was denied
						claim.stamp = at
						for _, name := range names {
							sent[name] = slices.DeleteFunc(sent[name], func(a admitted) bool { return a.id == r.ID })
						}
					case 1: // which another admission has replaced
						claim.stamp = at + 1
					}
				}
				got, err = memory.Acquire(ctx, r)
				want, err2 = script.wait(ctx, &r, script.user(&r), claim)
			case "acquire all":
				all := together(rt, r, n%6, scale)
				for i := range all[1:] {
					quietly.request(&all[1+i])
				}
				var gots, wants []Decision
				gots, err = askAll(all, func(all []Request) ([]Decision, error) { return memory.AcquireAll(ctx, all) })
				wants, err2 = askAll(all, func(all []Request) ([]Decision, error) { // past the claim
					return script.waitAll(ctx, all, script.user(&all[0]), denial{})
				})
				several, fromScript = decided(gots), decided(wants)
			case "cancel":
				r.Used = rapid.IntRange(0, 3).Draw(rt, "used") == 0
				got.Moved, err = memory.Cancel(ctx, r)
				want.Moved, err2 = script.Cancel(ctx, r)
			case "inherit":
				from := fmt.Sprint("n", (n+6*rapid.IntRange(1, 3).Draw(rt, "from"))%24)
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
			}
			if err != nil || err2 != nil {
				rt.Fatal(err, err2)
			}
			// of those without a slot a line knows nothing
			if fault := came(ctx, line, script, r); fault != "" && !tails {
				rt.Fatalf("call %d, %s %+v: foreseen: %s", i, op, r, fault)
			}
			u, fault := stateOf(ctx, script)
			if fault != "" {
				rt.Fatalf("call %d, %s %+v: %s", i, op, r, fault)
			}
			if got, want := memory.user(&r).state(), u.state(); got != want {
				rt.Fatalf("call %d, %s %+v:\nmemory\n%s\nscript\n%s", i, op, r, got, want)
			}
			if several != fromScript {
				rt.Fatalf("call %d, several as %+v:\nmemory\n%s\nscript\n%s", i, r, several, fromScript)
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
}

// tails reports whether somebody waits without a slot.
func (u *model) tails() bool {
	for _, c := range u.classes {
		if len(c.queue) > len(c.slots) {
			return true
		}
	}
	return false
}

// together returns requests as that one, of other notifications of its kind.
func together(rt *rapid.T, r Request, kind int, scale time.Duration) []Request {
	var all []Request
	numbers := rapid.SliceOfNDistinct(rapid.IntRange(0, 11), 2, 6, rapid.ID).Draw(rt, "numbers")
	inOrder := rapid.Bool().Draw(rt, "in order")
	for i, n := range numbers {
		r := r
		r.ID = fmt.Sprint("n", kind+6*n)
		if inOrder && !r.Accepted.IsZero() {
			r.Accepted = r.Accepted.Add(time.Duration(i) * time.Second / scale)
		} else if rapid.Bool().Draw(rt, "of another acceptance") {
			r.Accepted = start.Add(time.Duration(rapid.IntRange(0, 12).Draw(rt, "accepted")) * time.Second)
		}
		if rapid.IntRange(0, 3).Draw(rt, "other bounds") == 0 {
			r.Wait = rapid.SampledFrom([]time.Duration{0, 1200 * time.Millisecond}).Draw(rt, "wait") / scale
			r.Horizon = rapid.SampledFrom([]time.Duration{0, 10 * time.Second, time.Hour}).Draw(rt, "horizon")
		}
		all = append(all, r)
	}
	return all
}

// askAll asks until all are decided of, and has what moved in the first decision.
func askAll(all []Request, ask func([]Request) ([]Decision, error)) (decisions []Decision, err error) {
	for len(decisions) < len(all) {
		some, err := ask(all[len(decisions):])
		if err != nil {
			return nil, err
		}
		if len(decisions) > 0 {
			decisions[0].Moved = append(decisions[0].Moved, some[0].Moved...)
			some[0].Moved = nil
		}
		decisions = append(decisions, some...)
	}
	return decisions, nil
}

// decided writes decisions, and what they have moved.
func decided(all []Decision) string {
	text := &strings.Builder{}
	for _, d := range all {
		sortBookings(d.Moved)
		d.Left = max(0, d.At.Sub(d.Now)) // what has passed since hangs on the machine
		fmt.Fprintf(text, "%+v\n", d)
	}
	return text.String()
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

// state is what is known of a user to whom something may come yet.
func (u *model) state() string {
	text := &strings.Builder{}
	for _, scope := range []string{General, "a", "b"} {
		fmt.Fprintln(text, scope, u.sent[scope])
	}
	words := func(p *Policy) string {
		if p == nil {
			return ""
		}
		return policyWords(*p)
	}
	for _, category := range []string{"", "a", "b", "c"} {
		if c := u.classes[category]; c != nil {
			fmt.Fprintln(text, category, words(u.general), u.changed, words(c.policy), c.slots, c.queue)
		}
	}
	return text.String() + u.quietState()
}

// kinds are the notifications of the histories, by the remainder of their number.
var kinds = []struct {
	category string
	scopes   []string
}{{"", []string{General}}, {"a", []string{"a"}}, {"a", []string{General, "a"}}, {"a", []string{General, "a"}}, {"b", []string{General, "b"}}, {"c", []string{General}}}

// anyState has the sets say anything that they might, where there is only one kind of those
// who wait.
func anyState(rt *rapid.T, l *Redis, policies map[string]Policy, quietly *genQuiet, scale time.Duration, only int) {
	ctx, base := context.Background(), l.prefix+":{u}:"
	half, drawn, periods := 500_000/int64(scale), []int64{start.UnixMicro()}, []int64{0}
	for _, name := range []string{General, "a", "b"} {
		for _, r := range policies[name].appendRules(nil) {
			periods = append(periods, r.period)
		}
	}
	instant := func(from, to int64) float64 {
		at := start.UnixMicro() + rapid.Int64Range(from, to).Draw(rt, "half seconds")*half
		if rapid.Bool().Draw(rt, "just behind another") {
			at = rapid.SampledFrom(drawn).Draw(rt, "which") + rapid.SampledFrom(periods).Draw(rt, "period")
			at = min(max(at, start.UnixMicro()+from*half), start.UnixMicro()+to*half)
		}
		drawn = append(drawn, at+rapid.SampledFrom([]int64{0, 0, 0, 1, 1000, 2500, 15_000}).Draw(rt, "hair"))
		return float64(drawn[len(drawn)-1])
	}
	_, err := l.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for range rapid.IntRange(0, 9).Draw(rt, "sent") {
			n, at := rapid.IntRange(0, 23).Draw(rt, "who"), instant(-20, 10)
			for _, scope := range kinds[n%6].scopes {
				p.ZAdd(ctx, base+sentSets[scope], redis.Z{Score: at, Member: fmt.Sprint("n", n)})
			}
		}
		limits := []any{"g", policyWords(policies[General])}
		if ago := rapid.SampledFrom([]int64{-1, 0, 500_000, 999_999, 1_000_000, -3_600_000_000}).Draw(rt, "changed"); ago != -1 {
			limits = append(limits, "@", start.UnixMicro()-ago)
		}
		anybody, categories := false, []string{}
		for _, kind := range []int{0, 2, 4, 5} {
			category, taken := kinds[kind].category, map[float64]bool{}
			if only >= 0 && category != kinds[only].category {
				continue
			}
			for k := range rapid.IntRange(0, 4).Draw(rt, "waiting") {
				at := instant(-10, 40)
				if taken[at] {
					continue // no two slots are alike
				}
				taken[at], anybody = true, true
				categories = append(categories, category)
				limits = append(limits, "c"+category, policyWords(policies[category]))
				p.ZAdd(ctx, base+"booked", redis.Z{Score: at, Member: fmt.Sprintf("%s %.0f", category, at)})
				p.ZAdd(ctx, base+"queue:"+category, redis.Z{Score: instant(0, 6), Member: fmt.Sprint("n", kind+6*k)})
			}
		}
		if anybody {
			p.HSet(ctx, base+"limits", append(limits, quietly.fields(policies, categories)...)...)
		}
		return nil
	})
	if err != nil {
		rt.Fatal(err)
	}
}

// sentSets are the keys of the admissions of the histories' scopes.
var sentSets = map[string]string{General: "sent", "a": "sent:a", "b": "sent:b"}

// policyWords writes the limits as they are kept.
func policyWords(p Policy) string {
	if !p.paces() && !p.Exempt {
		return ""
	}
	return p.words()
}

// stateOf answers what the sets say, and in what they contradict each other.
func stateOf(ctx context.Context, l *Redis) (u *model, fault string) {
	base := l.prefix + ":{u}:"
	entries := func(set string) []redis.Z { return l.client.ZRangeWithScores(ctx, base+set, 0, -1).Val() }
	u = newModel()
	for scope, set := range sentSets {
		for _, e := range entries(set) {
			u.sent[scope] = append(u.sent[scope], admitted{e.Member.(string), int64(e.Score)})
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
		queue := entries("queue:" + category)
		c := &class{policy: policyOf(words)}
		for _, slot := range slices.Sorted(maps.Keys(all)) {
			if of, _, _ := strings.Cut(slot, " "); of != category {
				continue
			}
			if slot != fmt.Sprintf("%s %.0f", category, all[slot]) {
				return u, fmt.Sprintf("slot %q is at %v", slot, all[slot])
			}
			c.slots = append(c.slots, int64(all[slot]))
			delete(all, slot)
		}
		for _, e := range queue {
			c.queue = append(c.queue, waiter{e.Member.(string), int64(e.Score)})
		}
		if len(c.slots) > len(c.queue) {
			return u, fmt.Sprintf("%d slots for %d of %q", len(c.slots), len(c.queue), category)
		}
		if len(c.queue) > 0 {
			u.classes[category] = c
		}
	}
	if len(all) > 0 {
		return u, fmt.Sprintf("slots of no category: %v", all)
	}
	if len(u.classes) > 0 {
		u.general = policyOf(limits["g"])
		u.read(limits, u.classes)
	}
	return u, ""
}
