package throttletest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/pushpace/pushpace/throttle"
)

// linearizable: concurrent calls for a user return what sequential calls in some order would.
func linearizable(s *stage) { s.linearizable([]throttle.Planner{s.Limiter}) }

// linearizablePeers is linearizable with the limiters of two processes.
func linearizablePeers(s *stage) { s.linearizable([]throttle.Planner{s.Limiter, s.Peer}) }

// callKind is the kind of a concurrent call.
type callKind int

const (
	callAcquire callKind = iota
	callCancel
)

// asked is the input of a concurrent call.
type asked struct {
	kind    callKind
	request throttle.Request
	// beside is the number of overlapping acquires, whose claims the call may see.
	beside int
}

func (s *stage) linearizable(limiters []throttle.Planner) {
	for range s.size(12) {
		history := s.concurrentHistory(limiters)
		for i := range history {
			in := history[i].Input.(asked)
			if s.harness.Claims {
				in.beside = overlapping(history, i)
			}
			history[i].Input = in
		}
		if result := porcupine.CheckOperationsTimeout(model, history, 2*time.Minute); result != porcupine.Ok {
			for _, op := range history {
				s.Logf("%d to %d: %s", op.Call, op.Return, model.DescribeOperation(op.Input, op.Output))
			}
			s.Fatalf("the history is not linearizable: %v", result)
		}
	}
}

// concurrentHistory makes random calls from several goroutines, in rounds; time passes between
// rounds.
func (s *stage) concurrentHistory(limiters []throttle.Planner) []porcupine.Operation {
	unit := s.unit()
	general, own := policy(unit, rate(4, 10*unit)), policy(0, rate(2, 8*unit))
	user := s.user()
	var clock atomic.Int64
	var mu sync.Mutex
	var history []porcupine.Operation
	for round := range 6 {
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				limiter := limiters[g%len(limiters)]
				for range 3 {
					n := rand.IntN(6)
					in := asked{request: throttle.Request{User: user, ID: fmt.Sprint("n", n),
						Scopes: scopes(general, []string{"", "a", "b"}[n%3], own)}}
					if rand.IntN(3) == 0 { // a new notification
						in.request.ID = fmt.Sprint("new", n%3, "-", round, "-", clock.Add(1))
					}
					if rand.IntN(8) == 0 {
						in.kind = callCancel
					}
					called := clock.Add(1)
					d, err := call(limiter, in)
					returned := clock.Add(1)
					if err != nil {
						s.Errorf("%v", err)
						return
					}
					mu.Lock()
					history = append(history, porcupine.Operation{ClientId: g, Input: in, Call: called, Output: d, Return: returned})
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		s.pass(unit * time.Duration(rand.IntN(12)) / 4)
	}
	return history
}

func call(l throttle.Planner, in asked) (d throttle.Decision, err error) {
	ctx := context.Background()
	switch in.kind {
	case callCancel:
		_, err = l.Cancel(ctx, in.request)
	default:
		d, err = l.Acquire(ctx, in.request)
	}
	return d, err
}

func overlapping(history []porcupine.Operation, i int) int {
	n := 0
	for j, other := range history {
		if j != i && other.Input.(asked).kind == callAcquire && other.Call < history[i].Return && other.Return > history[i].Call {
			n++
		}
	}
	return n
}

// model is one user's list of admissions. A request is granted if its limits allow it beside these
// admissions. It is refused if the limits deny it, or would if the overlapping calls were granted.
var model = porcupine.Model{
	Init: func() any { return plainList(nil) },
	Step: func(state, input, output any) (bool, any) {
		list, in, d := state.(plainList), input.(asked), output.(throttle.Decision)
		if in.kind == callCancel {
			return true, list.without(in.request.ID)
		}
		switch d.Status {
		case throttle.Granted:
			if list.fault(in.request, d.At) != "" {
				return false, list
			}
			return true, list.with(in.request, d.At)
		case throttle.Refused:
			now := d.Now
			for i := range in.beside {
				list = append(list.without(fmt.Sprint("claim", i)), held{fmt.Sprint("claim", i), now, names(in.request)})
			}
			at, _ := list.first(in.request, now)
			return at.After(now), state
		}
		return false, list
	},
	Equal: func(a, b any) bool { return a.(plainList).equal(b.(plainList)) },
	DescribeOperation: func(input, output any) string {
		in, d := input.(asked), output.(throttle.Decision)
		return fmt.Sprintf("%s %s %v, %d beside: %s at %d, left %v by %s %s", [...]string{"acquire", "cancel"}[in.kind],
			in.request.ID, names(in.request), in.beside, d.Status, d.At.UnixMicro(), d.Left, d.Scope, d.Rule)
	},
}

// equal compares two lists without regard to order.
func (l plainList) equal(other plainList) bool {
	if len(l) != len(other) {
		return false
	}
	at := make(map[string]time.Time, len(l))
	for _, h := range l {
		at[h.id] = h.at
	}
	for _, h := range other {
		if instant, ok := at[h.id]; !ok || !instant.Equal(h.at) {
			return false
		}
	}
	return true
}
