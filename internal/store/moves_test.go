package store_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
)

// After each random move of several workers every job is in exactly one place; at the end every
// accepted notification has ended once.
func TestMovesKeepEachJobInOnePlace(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		rapid.Check(t, func(rt *rapid.T) {
			m := &moves{boardRig: newBoardRig(rt, t, client), states: map[string]store.State{}, queued: map[string]bool{},
				letters: map[string]bool{}, payloads: map[string][]byte{}}
			m.acceptor = m.records.NewAcceptor()
			for i := range m.workers {
				m.workers[i] = m.begin()
			}
			rt.Repeat(map[string]func(*rapid.T){
				"accept": m.accept, "accept another": m.accept, "accept again": m.acceptAgain, "another client": m.another, "garble": m.garble,
				"pull": m.pull, "pull more": m.pull, "put off": m.putOff, "give back": m.giveBack, "end": m.end, "deliver": m.deliver, "settle": m.settle,
				"set aside": m.setAside, "take": m.take, "withdraw": m.withdraw, "requeue": m.requeue, "wake": m.wake,
				"time passes": m.timePasses, "silence": m.silence, "sign": m.sign, "reap": m.reap,
			})
			m.drain()
		})
	})
}

// moves makes random moves and keeps the expected state of each notification.
type moves struct {
	boardRig
	acceptor  *store.Acceptor
	states    map[string]store.State // of accepted notifications
	queued    map[string]bool        // whether it has a job
	payloads  map[string][]byte
	accepted  []*store.Acceptance
	visits    []*store.Job // of all pulls
	unfit     []*store.Unfit
	letters   map[string]bool
	malformed int64
	workers   [3]*moveWorker
	terms     int
	visit     int64
}

// A moveWorker is a worker's term.
type moveWorker struct {
	term   string
	silent bool // it sends no heartbeats
	dead   bool // another worker has declared it dead
}

// check compares the board with the expected state of each notification.
func (m *moves) check(b *board) {
	m.t.Helper()
	ended, accepted := map[store.State]int64{}, int64(0)
	for _, id := range m.ids {
		if fault := b.fault(id); fault != "" {
			m.t.Fatalf("%s %s: %+v", id, fault, b)
		}
		state, at := m.states[id], b.place(id)
		_, dated := b.sets["due"][id]
		if m.queued[id] != (at != "") || b.records[id]["state"] != string(state) {
			m.t.Fatalf("%s is in %q, %q; it has a job: %t, it is %q", id, at, b.records[id]["state"], m.queued[id], state)
		}
		if (at == "scheduled" || at == "retry") && !dated {
			m.t.Fatalf("%s has no due time", id)
		}
		if state.Ended() {
			ended[state]++
		}
		if state != "" {
			accepted++
		}
	}
	if c := b.counts; !maps.Equal(c.Ended, ended) || c.Accepted != accepted || c.Malformed != m.malformed || c.Letters != int64(len(m.letters)) {
		m.t.Fatalf("counts %+v, want %d accepted, %v, %d malformed, %d letters", c, accepted, ended, m.malformed, len(m.letters))
	}
}

// once makes a move. Each job must stay or go one of the ways, such as "active>retry". If the move
// returns false, nothing may change.
func (m *moves) once(ways string, move func(*board) (does bool)) {
	m.t.Helper()
	before := m.read()
	does := move(before)
	after := m.read()
	for _, id := range m.ids {
		from, to := before.place(id), after.place(id)
		if from != to && !slices.Contains(strings.Fields(ways), from+">"+to) {
			m.t.Fatalf("%s went from %q to %q", id, from, to)
		}
	}
	m.check(after)
	if !does && !reflect.DeepEqual(before, after) {
		m.t.Fatalf("the move does nothing, and changes %+v\nto %+v", before, after)
	}
}

// twice repeats the move as after a lost reply. The repetition changes nothing.
func (m *moves) twice(ways string, move func(*board) (does bool)) {
	m.t.Helper()
	m.once(ways, move)
	m.once("", func(b *board) bool { move(b); return false })
}

// drain declares all workers dead; a new worker ends all notifications.
func (m *moves) drain() {
	for _, w := range m.workers {
		if w.silent = true; !w.dead {
			m.must(m.boardRig.silence(w.term))
		}
	}
	m.reap(nil)
	w := m.begin()
	for range 100 {
		for _, id := range m.ids {
			m.pass(id)
		}
		m.visits, m.unfit, m.visit = nil, nil, m.visit+1
		m.once(pullWays, func(b *board) bool {
			m.pulled(b, store.Pull{Queue: boardQueue, Most: 8, Term: w.term, Visit: m.visit}, false)
			return true
		})
		for _, j := range m.visits {
			m.must(m.ends(j, func(e *store.Ends) { e.Settle(j, nil) }))
			m.queued[j.ID] = false
			if m.states[j.ID] == store.Waiting {
				m.states[j.ID] = store.Delivered
			}
		}
		for _, u := range m.unfit {
			m.setsAside(u, true)
		}
		if b := m.read(); len(b.lists["active"])+len(b.lists["pending"])+len(b.sets["retry"])+len(b.sets["scheduled"]) == 0 {
			if m.check(b); b.counts.Waiting() != 0 {
				m.t.Fatalf("%d wait", b.counts.Waiting())
			}
			return
		}
	}
	m.t.Fatalf("jobs are left: %+v", m.read())
}
