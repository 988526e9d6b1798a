package throttle

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"
)

// A scripted makes random calls for one user, and checks the user's keys after each call.
type scripted struct {
	t       *rapid.T
	limiter *Redis
	client  *redis.Client
	advance func(time.Duration)

	user     string
	policies map[string]Policy // by scope
	sent     map[string][]sentOne
	asked    map[string]int // by ID: each waiting notification's position in the order of requests
	turn     int
	front    int // position of the last notification that became first of all; negative
}

type sentOne struct {
	id, category string
	at           int64
}

var scriptCategories = []string{"", "a", "b"}

// drawnPolicy draws limits with periods from 0.3 to 20 s, and of a day.
func drawnPolicy(rt *rapid.T, name string) Policy {
	rates := []Rate{{1, 2 * time.Second}, {2, 7 * time.Second}, {3, 20 * time.Second}, {1, 24 * time.Hour}}
	p := Policy{MinGap: rapid.SampledFrom([]time.Duration{0, 0, 300 * time.Millisecond, 3 * time.Second}).Draw(rt, name+" gap")}
	for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(rates)-1), 0, 2, rapid.ID).Draw(rt, name+" rates") {
		p.Rates = append(p.Rates, rates[i])
	}
	return p
}

// scripts runs the property, each time with a new user, on a clock that only the property advances.
func scripts(t *testing.T, property func(*scripted)) {
	t.Helper()
	t.Parallel()
	l := newClockedLine(t)
	users := 0
	rapid.Check(t, func(rt *rapid.T) {
		users++
		s := &scripted{t: rt, limiter: l.limiter, client: l.limiter.client.(*redis.Client), advance: l.advance, user: fmt.Sprint("u", users),
			policies: map[string]Policy{}, sent: map[string][]sentOne{}, asked: map[string]int{}}
		for _, scope := range []string{General, "a", "b"} {
			s.policies[scope] = drawnPolicy(rt, scope)
		}
		property(s)
	})
}

func (s *scripted) request(category, id string) Request {
	r := Request{User: s.user, ID: id, Category: category, Horizon: 10_000 * time.Hour, Scopes: []Scope{{General, s.policies[General]}}}
	if category != "" {
		r.Scopes = append(r.Scopes, Scope{category, s.policies[category]})
	}
	return r
}

func (s *scripted) keys() *keys {
	r := s.request("", "")
	return &s.limiter.user(&r).keys
}

// drawn returns a request for one of 15 notifications. The ID determines the category.
func (s *scripted) drawn() Request {
	n := rapid.IntRange(0, 14).Draw(s.t, "n")
	return s.request(scriptCategories[n%3], fmt.Sprint("n", n))
}

func (s *scripted) now() int64 { return s.limiter.now().UnixMicro() }

// ask runs the script without a claim.
func (s *scripted) ask(r Request, claim deniedClaim) Decision {
	admitted := s.admitted(r)
	d, err := s.limiter.wait(context.Background(), &r, s.limiter.user(&r), claim)
	if err != nil {
		s.t.Fatalf("%s: %v", r.ID, err)
	}
	_, waits := s.asked[r.ID]
	s.learn(r, d)
	if _, now := s.asked[r.ID]; now && !waits && admitted != 0 && admitted != claim.stamp {
		s.front-- // the notification was granted before
		s.asked[r.ID] = s.front
	}
	return d
}

// admitted returns the time of the notification's admission, or 0.
func (s *scripted) admitted(r Request) (last int64) {
	for _, scope := range r.Scopes {
		at, _ := s.client.ZScore(context.Background(), s.limiter.user(&r).keys.timeline(scope.Name), member(r.ID)).Result()
		last = max(last, int64(at))
	}
	return last
}

// learn checks the decision against the known state of the user, and updates the state.
func (s *scripted) learn(r Request, d Decision) {
	switch d.Status {
	case Granted:
		s.lawful(r, d.At.UnixMicro())
		for scope := range s.sent {
			s.sent[scope] = slices.DeleteFunc(s.sent[scope], func(o sentOne) bool { return o.id == r.ID })
		}
		for _, scope := range r.Scopes {
			s.sent[scope.Name] = append(s.sent[scope.Name], sentOne{r.ID, r.category(), d.At.UnixMicro()})
		}
		delete(s.asked, r.ID)
	case Deferred:
		if _, waits := s.asked[r.ID]; !waits && !d.Slotless {
			s.turn++
			s.asked[r.ID] = s.turn
		}
	}
}

// lawful fails if the admission exceeds a limit.
func (s *scripted) lawful(r Request, at int64) {
	for _, scope := range r.Scopes {
		var instants []int64
		for _, o := range s.sent[scope.Name] {
			if o.id != r.ID {
				instants = append(instants, o.at)
			}
		}
		slices.Sort(instants)
		for i, rule := range scope.Policy.appendRules(nil) {
			if n := len(instants); n >= rule.n && rule.period > 0 && at < instants[n-rule.n]+rule.period {
				s.t.Fatalf("%s goes at %d, and by %s of %q not before %d", r.ID, at, scope.Policy.ruleName(i), scope.Name, instants[n-rule.n]+rule.period)
			}
		}
	}
}

func (s *scripted) cancel(r Request) FollowUp {
	placed, err := s.limiter.Cancel(context.Background(), r)
	must(s.t, err)
	delete(s.asked, r.ID)
	if !r.Used {
		for scope := range s.sent {
			s.sent[scope] = slices.DeleteFunc(s.sent[scope], func(o sentOne) bool { return o.id == r.ID })
		}
	}
	return placed
}

func (s *scripted) replan(all ...Request) FollowUp {
	placed, err := s.limiter.Replan(context.Background(), all)
	must(s.t, err)
	slots := s.slots()
	for _, b := range placed.Early {
		if _, waits := slots[b.member]; !waits {
			delete(s.asked, b.ID) // the notification has no limits any more
		}
	}
	return placed
}

// slots returns the user's slots by member.
func (s *scripted) slots() map[string]int64 {
	all, err := s.client.ZRangeWithScores(context.Background(), s.keys().slots, 0, -1).Result()
	must(s.t, err)
	slots := map[string]int64{}
	for _, z := range all {
		slots[z.Member.(string)] = int64(z.Score)
	}
	return slots
}

// judge checks the user's keys against each other, and the lines against the order of requests.
func (s *scripted) judge(after string) {
	if faults := faultsOfSlots(context.Background(), s.client, s.keys()); len(faults) > 0 {
		s.t.Fatalf("after %s %q", after, faults)
	}
	type waiter struct {
		id   string
		slot int64
	}
	lines := map[Line][]waiter{}
	for member, slot := range s.slots() {
		line, id := lineOf(member)
		lines[line] = append(lines[line], waiter{id, slot})
		if s.asked[id] == 0 {
			s.t.Fatalf("after %s %s holds a slot, and does not wait", after, id)
		}
	}
	n := 0
	for line, all := range lines {
		slices.SortFunc(all, func(a, b waiter) int { return int(a.slot - b.slot) })
		for i := 1; i < len(all); i++ {
			if all[i].slot == all[i-1].slot || s.asked[all[i].id] < s.asked[all[i-1].id] {
				s.t.Fatalf("after %s %v waits behind %v in %+v", after, all[i], all[i-1], line)
			}
		}
		n += len(all)
	}
	if n != len(s.asked) {
		s.t.Fatalf("after %s there wait %v, and %v hold slots", after, s.asked, lines)
	}
}

// pass advances the clock by a drawn time.
func (s *scripted) pass() {
	s.advance(rapid.SampledFrom([]time.Duration{0, 0, time.Microsecond, 3 * time.Millisecond, 400 * time.Millisecond, time.Second, 5 * time.Second, 25 * time.Hour}).Draw(s.t, "passes"))
}

// step makes a drawn call and returns its name.
func (s *scripted) step() string {
	r := s.drawn()
	switch call := rapid.IntRange(0, 11).Draw(s.t, "call"); call {
	case 0:
		r.Used = rapid.Bool().Draw(s.t, "used")
		s.cancel(r)
		return "a cancel of " + r.ID
	case 1:
		r.ID, r.AfterLeave = "", rapid.Bool().Draw(s.t, "leaver")
		s.replan(r)
		return "a replan"
	case 2:
		if s.policies[General] = drawnPolicy(s.t, General); s.policies[General].Unlimited() {
			s.policies[General] = Policy{MinGap: time.Second} // otherwise a line without limits is released
		}
		all := []Request{s.request("", ""), s.request("a", ""), s.request("b", "")}
		placed := s.replan(all...)
		must(s.t, s.limiter.ClearEarly(context.Background(), all[0], placed.Early))
		return "other limits"
	case 3: // a successor, which asks twice
		elder := s.drawn()
		r.Category, r.Scopes = elder.Category, elder.Scopes
		r.ID, r.Replaces = fmt.Sprint("heir-", elder.ID), elder.ID
		s.heir(r)
		return "an heir of " + elder.ID
	case 4: // a denied claim with a concurrent request
		return s.beside(r)
	default:
		r.SlotOnly = call == 5
		before := s.slots()
		d := s.ask(r, deniedClaim{})
		if slot, held := before[r.Line().name()+r.ID]; held && (d.Slot.UnixMicro() != slot || d.Status == Granted && d.At.UnixMicro() < slot && d.Slot.IsZero()) {
			s.t.Fatalf("%s held %d: %+v", r.ID, slot, d)
		}
		return "a visit of " + r.ID
	}
}

// heir asks twice with Replaces: the request takes over the earlier of the two slots.
func (s *scripted) heir(r Request) {
	slots, line := s.slots(), r.Line().name()
	slot, held := slots[line+r.Replaces]
	if own, mine := slots[line+r.ID]; mine && (!held || own < slot) {
		slot, held = own, true
	}
	if turn, waits := s.asked[r.Replaces]; waits {
		if own, too := s.asked[r.ID]; too {
			turn = min(turn, own)
		}
		s.asked[r.ID] = turn
		delete(s.asked, r.Replaces)
	}
	for range 2 {
		d := s.ask(r, deniedClaim{})
		if held && d.Slot.UnixMicro() != slot {
			s.t.Fatalf("the heir of a slot at %d has %+v", slot, d)
		}
		if d.Status == Granted {
			return
		}
		slot, held = d.At.UnixMicro(), true
	}
}

// beside leaves a claim in the sets while another notification asks, and then denies the claim.
func (s *scripted) beside(r Request) string {
	ctx := context.Background()
	late := s.request(r.Category, fmt.Sprint("claim", s.turn, "-", len(s.sent[General])))
	stamp := s.now()
	for _, scope := range late.Scopes {
		must(s.t, s.client.ZAdd(ctx, s.limiter.user(&late).keys.timeline(scope.Name), redis.Z{Score: float64(stamp), Member: member(late.ID)}).Err())
	}
	other := s.drawn()
	if _, is := s.asked[other.ID]; !is {
		s.ask(other, deniedClaim{})
	}
	s.ask(late, deniedClaim{stamp, stamp})
	return "a denied claim of " + late.ID
}

// For any calls in any order: no admission is sooner than the limits allow, the slots of a line
// ascend in the order of requests, and the keys agree.
func TestScriptKeysStayConsistent(t *testing.T) {
	scripts(t, func(s *scripted) {
		for range rapid.IntRange(1, 40).Draw(s.t, "steps") {
			s.judge(s.step())
			s.pass()
		}
	})
}
