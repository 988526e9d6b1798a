package store_test

import "testing"

// The model of a digest has few notifications, by their numbers, and sets of them as bits.

const (
	few    = 3
	nobody = -1
)

// A keys is what the records and the digest's key hold.
type keys struct {
	ended  [few]bool
	joined [few]uint8 // by the carrier
	open   [few]bool
	slot   [few]bool // it has been put off
	last   int8      // the digest's key
}

// step is what Digest does for x. It answers ended, the carrier that x has joined, or nobody.
func (k *keys) step(op string, x int, owned bool, most int) (ended bool, into int) {
	k.open[x] = false
	if k.ended[x] {
		return true, nobody
	}
	if op == "close" || !owned {
		return false, nobody
	}
	c := int(k.last)
	if !k.slot[x] && k.joined[x] == 0 && c != nobody && c != x && k.open[c] && !k.ended[c] && count(k.joined[c])+1 < most {
		k.joined[c] |= 1 << x
		k.ended[x] = true
		return false, c
	}
	if op == "wait" {
		k.open[x], k.last = true, int8(x)
	}
	return false, nobody
}

func count(set uint8) (n int) {
	for ; set != 0; set &= set - 1 {
		n++
	}
	return n
}

// What a worker is about to do with the notification that it has in hand.
const (
	idle = iota
	load
	ask         // what the limits say
	wait        // it is put off
	putOff      // back to the queue
	send        // what has joined
	settle      // its end
	putDown     // the job is done
	queued  = 0 // of a job; 1 and on is whose hands it is in
	gone    = 9
)

// A world is all that there is, and nothing else: what follows depends on it alone.
type world struct {
	keys
	job      [few]int8
	failed   [few]bool  // a worker has crashed with it
	waits    [few]int8  // how often it may be put off
	accounts [few]uint8 // what its push, or its end with a letter, has told of
	at       [2]int8    // what each worker is about to do
	has      [2]int8
	fresh    [2]bool  // what it has in hand had not failed
	list     [2]uint8 // what its push tells of
	cut      [2]bool  // the end is not by a push
	crashes  int8
	cancels  int8
}

// A mistake is one that the exploration is to find.
type mistake int

const (
	none      mistake = iota
	unclosed          // a visit reads who has joined, and does not close the digest
	reopened          // what may have been sent opens its digest again
	unchecked         // whether the job is in hand still is not looked at
)

type explorer struct {
	most    int
	mistake mistake
	seen    map[world]bool
	lost    string
}

// explore goes through all that can follow, until something is wrong.
func (e *explorer) explore(w world) {
	if e.lost != "" || e.seen[w] {
		return
	}
	e.seen[w] = true
	moved := false
	for who := range w.at {
		for _, next := range e.steps(w, who) {
			moved = true
			e.explore(next)
		}
	}
	for x := range few {
		if w.cancels > 0 && w.job[x] == queued && !w.ended[x] && w.joined[x] == 0 { // one step of take.lua
			next := w
			next.cancels--
			next.ended[x], next.job[x] = true, gone
			e.account(&next, x, 1<<x)
			e.explore(next)
		}
	}
	if moved {
		return
	}
	all := uint8(0)
	for _, told := range w.accounts {
		all |= told
	}
	if all != 1<<few-1 {
		e.lost = "one is told of nowhere"
	}
}

// account notes that x's push, or letter, tells of these.
func (e *explorer) account(w *world, x int, told uint8) {
	for y, other := range w.accounts {
		if y == x && other != 0 && other != told || y != x && other&told != 0 {
			e.lost = "one is told of in two pushes"
		}
	}
	w.accounts[x] = told
}

// steps are the worlds that may come next by what that worker does.
func (e *explorer) steps(w world, who int) (next []world) {
	to := func(at int8, change func(w *world)) {
		other := w
		other.at[who] = at
		if change != nil {
			change(&other)
		}
		next = append(next, other)
	}
	x, mine := int(w.has[who]), int8(1+who)
	if w.at[who] == idle {
		for y := range few {
			if w.job[y] == queued {
				to(load, func(w *world) { w.job[y], w.has[who], w.fresh[who] = mine, int8(y), !w.failed[y] })
			}
		}
		return next
	}
	if w.crashes > 0 { // the job comes back; or else the worker goes on, and has only lost it
		back := func(w *world) {
			w.crashes--
			if w.job[x] == mine {
				w.job[x], w.failed[x] = queued, true
			}
		}
		to(idle, func(w *world) { back(w); w.list[who], w.cut[who] = 0, false })
		to(w.at[who], back)
	}
	owned := w.job[x] == mine || e.mistake == unchecked
	switch w.at[who] {
	case load:
		if w.ended[x] && !w.fresh[who] {
			to(putDown, nil)
			break
		}
		for _, op := range []string{"close", "join"} { // close for what ends before it asks, and the exempt
			other := w
			if op == "join" && !w.fresh[who] {
				continue
			}
			was := other.open[x]
			ended, into := other.step(op, x, owned, e.most)
			if e.mistake == unclosed {
				other.open[x] = was
			}
			if ended || into != nobody {
				other.at[who] = putDown
			} else {
				other.at[who], other.list[who] = ask, 1<<x|other.joined[x]
			}
			next = append(next, other)
		}
	case ask:
		to(send, nil)
		to(settle, func(w *world) { w.cut[who] = true })
		if w.waits[x] > 0 {
			to(wait, func(w *world) { w.waits[x]-- })
		}
	case wait:
		if !w.fresh[who] && e.mistake != reopened {
			to(putOff, nil)
			break
		}
		other := w
		other.at[who] = putOff
		if ended, into := other.step("wait", x, owned, e.most); ended || into != nobody {
			other.at[who] = putDown
		}
		next = append(next, other)
	case putOff:
		to(idle, func(w *world) {
			if w.job[x] == mine {
				w.job[x], w.slot[x] = queued, true
			}
			w.list[who] = 0
		})
	case send:
		to(settle, func(w *world) { e.account(w, x, w.list[who]) })
	case settle:
		to(putDown, func(w *world) {
			if w.cut[who] && !w.ended[x] {
				e.account(w, x, w.list[who])
			}
			w.ended[x], w.list[who], w.cut[who] = true, 0, false
		})
	case putDown:
		to(idle, func(w *world) {
			if w.job[x] == mine {
				w.job[x] = gone
			}
			w.list[who] = 0
		})
	}
	return next
}

func explore(most int, m mistake, crashes, cancels int8) *explorer {
	e := &explorer{most: most, mistake: m, seen: map[world]bool{}}
	e.explore(world{keys: keys{last: nobody}, waits: [few]int8{2, 1, 1}, crashes: crashes, cancels: cancels})
	return e
}

// In whatever order two workers do their steps with three notifications, and whenever one of
// them crashes or loses its job, each is told of in one push, the same one every time.
func TestDigestModel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name             string
		most             int
		crashes, cancels int8
	}{{"a crash", few, 1, 0}, {"a crash, and room for two", few - 1, 1, 0}, {"a cancel", few, 0, 1}} {
		e := explore(c.most, none, c.crashes, c.cancels)
		if e.lost != "" {
			t.Errorf("%s: %s", c.name, e.lost)
		}
		t.Logf("%s: %d states", c.name, len(e.seen))
	}
}

// The exploration finds each of the mistakes.
func TestDigestModelFindsMistakes(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]mistake{"an open digest in hand": unclosed, "a second opening after a crash": reopened, "a join of a lost job": unchecked} {
		if explore(few, m, 1, 0).lost == "" {
			t.Errorf("%s: nothing is found", name)
		}
	}
}
