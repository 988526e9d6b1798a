package throttle

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/racing"
	"github.com/pushpace/pushpace/throttle/quiet"
)

// TestWhatHoldsWhileNobodyIsLate has notifications come at their slots, or before,
// in any order of acceptance, and be cancelled. After each call no window of those
// sent and those who wait is too short, the queues are in the order of acceptance, and to
// give all slots again changes none.
func TestWhatHoldsWhileNobodyIsLate(t *testing.T) {
	t.Parallel()
	histories := racing.Few(1000)
	if testing.Short() {
		histories /= 10
	}
	for seed := range uint64(histories) {
		if fault := obedient(seed, nil); fault != "" {
			t.Fatalf("seed %d: %s", seed, fault)
		}
	}
}

// TestWhatHoldsAtNight has the same of histories with quiet hours, which have no slot in them.
func TestWhatHoldsAtNight(t *testing.T) {
	t.Parallel()
	hours := []quiet.Hours{nil, {}, hoursOf(t, "12:00-12:01"), hoursOf(t, "11:59-12:00"), hoursOf(t, "11:59-12:00", "12:01-12:02")}
	for seed := range uint64(racing.Few(200)) {
		if fault := obedient(seed, hours); fault != "" {
			t.Fatalf("seed %d: %s", seed, fault)
		}
	}
}

// obedient is a history whose policies have some of those quiet hours.
func obedient(seed uint64, hours []quiet.Hours) string {
	rng := rand.New(rand.NewPCG(seed, 9))
	keep := (24 * time.Hour).Microseconds()
	u, now := newModel(), start.UnixMicro()
	policy := func() Policy {
		p := randomPolicy(rng)
		if len(hours) > 0 {
			p.Quiet, now = hours[rng.IntN(len(hours))], start.Add(-2*time.Second).UnixMicro()
		}
		return p
	}
	general := policy()
	own := map[string]Policy{"a": policy(), "b": policy()}
	requests := map[string]*Request{}
	wakeups := map[string]int64{}
	call := func(r *Request, what func(*visit)) {
		v := u.visit(r, now, keep)
		what(v)
		v.end()
		for _, b := range v.moved {
			if closed := v.listsOf(v.class).holds(); len(v.classes) == 1 && closed.opened(b.Slot.UnixMicro()) > b.Slot.UnixMicro() {
				panic(fmt.Sprintf("%s is woken for %v, in quiet hours", b.ID, b.Slot))
			}
			if _, waits := wakeups[b.ID]; waits {
				wakeups[b.ID] = b.Slot.UnixMicro()
			}
		}
	}
	for i := range 60 {
		if id := earliest(wakeups); id != "" && rng.IntN(2) == 0 { // somebody comes at its slot
			now = max(now, wakeups[id])
		} else {
			id = fmt.Sprint("n", i)
			r := &Request{ID: id, Scopes: []Scope{{General, general}}, Horizon: time.Hour, Accepted: start.Add(-time.Duration(rng.IntN(60)) * time.Second)}
			if c := []string{"", "a", "b"}[rng.IntN(3)]; c != "" {
				r.Scopes = append(r.Scopes, Scope{c, own[c]})
			}
			requests[id], wakeups[id] = r, now
		}
		id, gone := earliest(wakeups), false
		r := requests[id]
		if rng.IntN(10) == 0 {
			call(r, (*visit).cancel)
			delete(wakeups, id)
		} else {
			call(r, func(v *visit) {
				switch w := v.acquire(); w.status {
				case Granted:
					gone = true
					delete(wakeups, id)
				case Deferred:
					if v.held != none && w.at < v.held || w.late {
						panic(fmt.Sprintf("%s is put off at its slot %d until %d", id, v.held, w.at))
					}
					wakeups[id] = w.at
				}
			})
		}
		for _, c := range u.classes {
			if len(c.slots) != len(c.queue) || !slices.IsSorted(c.slots) {
				return fmt.Sprintf("%d slots of %d who wait: %v", len(c.slots), len(c.queue), c.slots)
			}
			for _, at := range c.slots {
				if u.listsOf(c).holds().opened(at) > at {
					return fmt.Sprintf("a slot at %v, in quiet hours", micros(at))
				}
			}
			for k := range c.queue[:max(0, len(c.queue)-1)] {
				if c.rank(c.queue[k]) != k {
					return fmt.Sprintf("the queue is %v", c.queue)
				}
			}
		}
		for scope, policy := range map[string]Policy{General: general, "a": own["a"], "b": own["b"]} {
			v := u.view(scope, policy, false)
			for _, rule := range v.rules {
				for k := rule.n; k < len(v.marks); k++ {
					if span := v.marks[k].at - v.marks[k-rule.n].at; span < rule.period {
						return fmt.Sprintf("after %s: %d in %q span %d µs, less than %d: %v", id, rule.n+1, scope, span, rule.period, v.marks)
					}
				}
			}
		}
		before, again := snapshot(u), &Request{Scopes: []Scope{{General, general}}}
		call(again, func(v *visit) { v.replan(rework{}) })
		// what has gone takes its margin along, which may leave a place for another
		if after := snapshot(u); !gone && !reflect.DeepEqual(before, after) {
			return fmt.Sprintf("after %s all slots are given again:\n%v\nbefore\n%v", id, after, before)
		}
	}
	return ""
}

func snapshot(u *model) map[string][]int64 {
	slots := map[string][]int64{}
	for name, c := range u.classes {
		slots[name] = slices.Clone(c.slots)
	}
	return slots
}

// earliest is who comes next.
func earliest(wakeups map[string]int64) string {
	first := ""
	for _, id := range slices.Sorted(maps.Keys(wakeups)) {
		if first == "" || wakeups[id] < wakeups[first] {
			first = id
		}
	}
	return first
}
