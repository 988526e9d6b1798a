package store_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// expect checks that a move fails with ErrNotClaimed if the job is in another claim.
func (m *moves) expect(b *board, j *store.Job, err error) (does bool) {
	m.t.Helper()
	if errors.Is(err, store.ErrNotClaimed) == b.claimed(j) {
		m.t.Fatalf("visit %s of %s: %v; it has the job: %t", j.Claim, j.ID, err, b.claimed(j))
	}
	if err != nil && !errors.Is(err, store.ErrNotClaimed) && !errors.Is(err, store.ErrUndone) {
		m.t.Fatal(err)
	}
	return err == nil
}

// drawn draws an element of all, or skips the move if all is empty.
func drawn[T any](rt *rapid.T, all []T, name string) T {
	if len(all) == 0 {
		rt.Skip("no " + name)
	}
	return rapid.SampledFrom(all).Draw(rt, name)
}

// drawIDs draws the IDs of one to three jobs.
func (m *moves) drawIDs(rt *rapid.T) []string {
	if len(m.ids) == 0 {
		rt.Skip("no job")
	}
	return rapid.SliceOfNDistinct(rapid.SampledFrom(m.ids), 1, 3, rapid.ID).Draw(rt, "ids")
}

// visited draws a pulled job, mostly one that is still in its claim.
func (m *moves) visited(rt *rapid.T) *store.Job {
	b := m.read()
	if rapid.IntRange(0, 3).Draw(rt, "late") > 0 {
		return drawn(rt, slices.DeleteFunc(slices.Clone(m.visits), func(j *store.Job) bool { return !b.claimed(j) }), "visit")
	}
	return drawn(rt, m.visits, "visit")
}

func (m *moves) begin() *moveWorker {
	m.terms++
	w := &moveWorker{term: fmt.Sprint("T", m.terms)}
	_, _, err := m.at.Heartbeat(m.ctx, store.Heartbeat{Term: w.term, First: true, Dead: time.Hour})
	m.must(err)
	return w
}

func (m *moves) accept(rt *rapid.T) {
	id, app := fmt.Sprint("n", len(m.ids)), rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "app")
	var notBefore time.Time
	if after := rapid.SampledFrom([]time.Duration{0, 0, 0, -time.Hour, time.Millisecond, time.Hour}).Draw(rt, "not before"); after != 0 {
		notBefore = time.Now().Add(after)
	}
	payload := m.payload(id, app, notBefore)
	a := m.at.NewAcceptance(id, boardQueue, payload, nil, store.Facts{App: app, User: "u", NotBefore: notBefore})
	m.ids, m.payloads[id], m.accepted = append(m.ids, id), payload, append(m.accepted, a)
	m.twice(">pending >scheduled", func(*board) bool {
		m.must(m.acceptor.Enqueue(m.ctx, a))
		m.states[id], m.queued[id] = store.Waiting, true
		return true
	})
}

func (m *moves) acceptAgain(rt *rapid.T) {
	a := drawn(rt, m.accepted, "acceptance")
	m.once("", func(*board) bool { m.must(m.acceptor.Enqueue(m.ctx, a)); return false })
}

// garbled is an unreadable message.
const garbled = "\xff"

// another enqueues another client's task, which is not a notification.
func (m *moves) another(rt *rapid.T) {
	id := fmt.Sprint("x", len(m.ids))
	m.ids, m.payloads[id], m.queued[id] = append(m.ids, id), m.payload(id, "a", time.Time{}), true
	m.must(m.client.HSet(m.ctx, m.key("t:"+id), "msg", garbled, "state", "pending").Err())
	m.must(m.client.LPush(m.ctx, m.key("pending"), id).Err())
}

func (m *moves) garble(rt *rapid.T) {
	id, b := drawn(rt, m.ids, "id"), m.read()
	if at := b.place(id); at == "" || at == "active" {
		rt.Skip("not on the queue")
	}
	m.must(m.client.HSet(m.ctx, m.key("t:"+id), "msg", garbled).Err())
}

// pullWays are the ways of a pull, which also forwards, parks and unparks jobs.
const pullWays = "pending>active scheduled>active retry>active scheduled>pending retry>pending pending>parked scheduled>parked retry>parked parked>active parked>pending"

func (m *moves) pull(rt *rapid.T) {
	w := drawn(rt, m.workers[:], "worker")
	m.visit++
	p := store.Pull{Queue: boardQueue, Most: rapid.IntRange(1, 4).Draw(rt, "most"), Term: w.term, Visit: m.visit}
	for _, name := range slices.Concat(boardRoutes, boardUsers, boardNames[:1]) {
		if room := rapid.IntRange(-2, 2).Draw(rt, "room"); room >= -1 {
			p.Bounds = append(p.Bounds, store.Bound{Name: name, Room: room})
		}
	}
	lost := rapid.IntRange(0, 5).Draw(rt, "lost") == 0
	m.once(pullWays, func(b *board) bool {
		m.pulled(b, p, lost)
		return true
	})
}

func (m *moves) pulled(b *board, p store.Pull, lost bool) (n int) {
	got, err := m.at.Pull(m.ctx, p)
	m.must(err)
	of, now := map[string]int{}, float64(time.Now().UnixMicro())
	for i := range got.Jobs {
		j := &got.Jobs[i]
		route := push.OnlyRoute(j.Payload)
		closed := slices.ContainsFunc(p.Bounds, func(b store.Bound) bool { return b.Name == route && b.Room < 0 })
		looked := b.place(j.ID) == "parked" && b.sets["due"][j.ID] <= now
		if hasSlot := j.Last.Why == store.Deferred; !looked && !(closed && hasSlot) {
			of[route]++
		}
		if lost {
			continue
		}
		if m.visits = append(m.visits, j); m.states[j.ID] == "" {
			m.must(m.at.Arrive(m.ctx, j.ID, j.Queue, store.Facts{App: "a", User: "u"}))
			m.states[j.ID] = store.Waiting
		}
	}
	for i := range got.Unfit {
		if !lost {
			m.unfit = append(m.unfit, &got.Unfit[i])
		}
	}
	for _, bound := range p.Bounds {
		if of[bound.Name] > max(0, bound.Room) {
			m.t.Fatalf("pulled %d of %s, which has room for %d", of[bound.Name], bound.Name, bound.Room)
		}
	}
	if n = len(got.Jobs) + len(got.Unfit); n > p.Most {
		m.t.Fatalf("pulled %d, of at most %d", n, p.Most)
	}
	return n
}

func (m *moves) putOff(rt *rapid.T) {
	j := m.visited(rt)
	back := &store.PutOff{Return: store.Return{Why: store.Deferred, Failed: rapid.Bool().Draw(rt, "failed"), After: rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Hour}).Draw(rt, "after")}}
	if rapid.Bool().Draw(rt, "by a limit") {
		back.Deferral = &store.Deferral{Until: time.Now().Add(back.After), Scope: "general", Rule: "1/1s"}
	}
	if rapid.Bool().Draw(rt, "after an attempt") {
		back.Attempt = &store.Attempt{Number: 1, Outcomes: []store.TargetOutcome{{Kind: "retry"}}}
	}
	ways := "active>retry"
	if names := slices.Concat(boardRoutes, boardNames); rapid.Bool().Draw(rt, "parked") {
		back.Park = store.ParkName(rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 2, rapid.ID).Draw(rt, "names"))
		ways += " active>parked"
	}
	m.twice(ways, func(b *board) bool { return m.expect(b, j, m.at.PutOff(m.ctx, j, back)) })
}

func (m *moves) giveBack(rt *rapid.T) {
	j := m.visited(rt)
	m.twice("active>pending", func(b *board) bool {
		n, err := m.at.GiveBack(m.ctx, j.Queue, []store.Job{*j})
		if err == nil && n == 0 {
			err = store.ErrNotClaimed
		}
		return m.expect(b, j, err)
	})
}

func (m *moves) end(rt *rapid.T) {
	j := m.visited(rt)
	m.twice("active>", func(b *board) bool {
		err := m.ends(j, func(e *store.Ends) { e.Add(j) })
		if b.claimed(j) && errors.Is(err, store.ErrUndone) != (m.states[j.ID] == store.Waiting) {
			m.t.Fatalf("the end of %s: %v", j.ID, err)
		}
		m.queued[j.ID] = m.queued[j.ID] && err != nil
		return m.expect(b, j, err)
	})
}

// deliver ends the notification too, even if the job is in another claim: it was sent.
func (m *moves) deliver(rt *rapid.T) {
	j := m.visited(rt)
	m.twice("active>", func(b *board) bool {
		err := m.ends(j, func(e *store.Ends) { e.Settle(j, []store.TargetOutcome{{Kind: "delivered"}}) })
		waited := m.states[j.ID] == store.Waiting
		if waited {
			m.states[j.ID] = store.Delivered
		}
		m.queued[j.ID] = m.queued[j.ID] && err != nil
		return m.expect(b, j, err) || waited
	})
}

func (m *moves) settle(rt *rapid.T) {
	j := m.visited(rt)
	e := &store.End{State: rapid.SampledFrom([]store.State{store.Expired, store.Exhausted}).Draw(rt, "state"), App: "a"}
	e.Letter = &store.Letter{ID: j.ID, State: e.State, Queue: j.Queue, Job: m.payloads[j.ID]}
	m.twice("", func(*board) bool {
		first, err := m.at.Settle(m.ctx, j.ID, e)
		if err != nil || first != (m.states[j.ID] == store.Waiting) {
			m.t.Fatalf("%s was %s: first %t, %v", j.ID, m.states[j.ID], first, err)
		}
		if first {
			if m.states[j.ID] = e.State; e.State.Dead() {
				m.letters[j.ID] = true
			}
		}
		return first
	})
}

func (m *moves) setAside(rt *rapid.T) {
	u := drawn(rt, m.unfit, "unfit job")
	if !m.read().claimed(&u.Job) {
		rt.Skip("in another claim")
	}
	drops := rapid.IntRange(0, 3).Draw(rt, "drops") > 0 // otherwise the worker dies before
	m.twice("active>", func(*board) bool { m.setsAside(u, drops); return true })
}

func (m *moves) setsAside(u *store.Unfit, drops bool) {
	m.must(m.at.SetAside(m.ctx, &store.Letter{ID: u.ID, State: store.Malformed, Queue: u.Queue, Job: u.Payload}))
	if drops {
		m.must(m.at.Drop(m.ctx, &u.Job))
	}
	if m.states[u.ID] == store.Waiting {
		m.states[u.ID] = store.Rejected
	} else if !m.letters[u.ID] {
		m.malformed++
	}
	m.letters[u.ID], m.queued[u.ID] = true, m.queued[u.ID] && !drops
}

func (m *moves) take(rt *rapid.T) {
	ids := m.drawIDs(rt)
	refs := make([]store.Ref, len(ids))
	for i, id := range ids {
		refs[i] = store.Ref{ID: id}
	}
	m.twice("pending> scheduled> retry> parked>", func(b *board) (does bool) {
		_, errs := m.at.TakeAll(m.ctx, refs, store.TakeOptions{State: store.Cancelled, Read: push.Contents})
		for i, id := range ids {
			err := errs[i]
			switch {
			case m.states[id] == "" && errors.Is(err, store.ErrUnknownID), m.states[id].Ended() && errors.Is(err, store.ErrEnded):
			case b.place(id) == "active" && errors.Is(err, store.ErrInFlight), b.tasks[id]["msg"] == garbled && err != nil:
			case m.states[id] == store.Waiting && err == nil:
				m.states[id], m.queued[id], does = store.Cancelled, false, true
			default:
				m.t.Fatalf("%s is %s, in %q: %v", id, m.states[id], b.place(id), err)
			}
		}
		return does
	})
}

// withdraw takes all of a user's readable jobs.
func (m *moves) withdraw(rt *rapid.T) {
	app := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "app")
	m.twice("pending> scheduled> retry> parked>", func(b *board) bool {
		taken, inFlight := 0, 0
		for _, id := range b.waits {
			switch of, _, _ := strings.Cut(b.records[id]["of"], "\n"); {
			case of != app || b.tasks[id]["msg"] == garbled:
			case b.place(id) == "active":
				inFlight++
			default:
				m.states[id], m.queued[id] = store.Cancelled, false
				taken++
			}
		}
		got, err := m.at.Withdraw(m.ctx, app, "u", "", push.Group{Category: "c"}.Has, store.TakeOptions{State: store.Cancelled, Read: push.Contents})
		if err != nil || got.Next != "" || len(got.Taken) != taken || got.InFlight != inFlight {
			m.t.Fatalf("%+v, %v; want %d taken, %d in flight", got, err, taken, inFlight)
		}
		return taken > 0
	})
}

func (m *moves) requeue(rt *rapid.T) {
	id := drawn(rt, slices.Sorted(maps.Keys(m.letters)), "letter")
	l, err := m.at.Letter(m.ctx, id)
	m.must(err)
	facts := &store.Facts{App: "a", User: "u"}
	if l.State == store.Malformed {
		facts = nil
	}
	m.twice(">pending retry>pending parked>pending", func(b *board) bool {
		err := m.at.Requeue(m.ctx, l, m.payloads[id], nil, facts)
		refused := b.place(id) == "active" || facts == nil && b.place(id) != "" && m.letters[id]
		if errors.Is(err, store.ErrJobExists) != refused || !refused && err != nil {
			m.t.Fatalf("requeue of %s, %s, in %q: %v", id, l.State, b.place(id), err)
		}
		if err != nil || !m.letters[id] {
			return false
		}
		if delete(m.letters, id); facts == nil {
			m.malformed--
		} else {
			m.states[id] = store.Waiting
		}
		m.queued[id] = true
		return true
	})
}

func (m *moves) wake(rt *rapid.T) {
	var all []store.Wake
	for _, id := range m.drawIDs(rt) {
		after := rapid.SampledFrom([]time.Duration{-time.Second, 10 * time.Minute}).Draw(rt, "after")
		all = append(all, store.Wake{ID: id, At: time.Now().Add(after)})
	}
	m.twice("retry>pending", func(b *board) bool {
		claimed, err := m.at.WakeAll(m.ctx, boardQueue, all)
		m.must(err)
		for _, w := range all {
			if slices.Contains(claimed, w.ID) != (b.place(w.ID) == "active") {
				m.t.Fatalf("claimed are %q", claimed)
			}
		}
		return true
	})
}

// timePasses makes a delayed job due.
func (m *moves) timePasses(rt *rapid.T) { m.pass(drawn(rt, m.ids, "id")) }

func (m *moves) silence(rt *rapid.T) {
	w := drawn(rt, m.workers[:], "worker")
	if w.silent = true; !w.dead {
		m.must(m.boardRig.silence(w.term))
	}
}

func (m *moves) sign(rt *rapid.T) {
	i := rapid.IntRange(0, len(m.workers)-1).Draw(rt, "worker")
	w := m.workers[i]
	m.twice("", func(*board) bool {
		_, _, err := m.at.Heartbeat(m.ctx, store.Heartbeat{Term: w.term, Dead: time.Hour})
		if errors.Is(err, store.ErrDead) != w.dead || err != nil && !w.dead {
			m.t.Fatalf("%+v: %v", w, err)
		}
		return false
	})
	if w.silent = false; w.dead {
		m.workers[i] = m.begin()
	}
}

func (m *moves) reap(*rapid.T) {
	m.twice("active>pending", func(*board) bool {
		var dead []string
		for _, judges := range []bool{false, true} {
			var err error
			dead, _, err = m.at.Heartbeat(m.ctx, store.Heartbeat{Term: "judge", First: true, Dead: time.Hour, Judges: judges})
			m.must(err)
		}
		for _, w := range m.workers {
			if w.silent && !w.dead && !slices.Contains(dead, w.term) {
				m.t.Fatalf("dead are %q, not %s", dead, w.term)
			}
			w.dead = w.dead || w.silent
		}
		_, err := m.at.Reap(m.ctx)
		m.must(err)
		if len(dead) > 0 {
			m.must(m.at.RemoveHeartbeats(m.ctx, dead...))
		}
		for id, task := range m.read().tasks {
			if term, _, _ := strings.Cut(task["worker"], "/"); term != "" && m.client.ZScore(m.ctx, m.at.Key("signs"), term).Val() == 0 {
				m.t.Fatalf("%s is claimed by %s, which is dead", id, term)
			}
		}
		return true
	})
}
