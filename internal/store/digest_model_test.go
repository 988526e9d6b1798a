package store_test

import "testing"

// The model of a digest has few notifications, by their numbers, and sets of them as bits.

const (
	few    = 3
	nobody = -1
	opened = 1 << 7 // of what is told of: it is sealed
)

// A keys is what the records and the digest's key hold.
type keys struct {
	ended   [few]bool
	told    [few]uint8 // once it is sealed: opened, and what it tells of
	carrier int8
	members uint8
}

// join is what Digest.Join does in one step. Who is answered has been joined, carries, or is
// full.
func (k *keys) join(x int, carry bool, most int) (answer string, who int) {
	switch {
	case k.ended[x]:
		return "ended", nobody
	case k.told[x] != 0, k.carrier == nobody && !carry:
		return "none", nobody
	case k.carrier == nobody:
		k.carrier, k.members = int8(x), 1<<x
		return "carries", x
	case int(k.carrier) == x:
		return "carries", x
	case count(k.members) >= most:
		return "full", int(k.carrier)
	}
	k.members |= 1 << x
	k.ended[x] = true
	return "joined", int(k.carrier)
}

// seal is what Digest.Seal does: it returns what the push tells of, 0 where it has ended.
func (k *keys) seal(x int) uint8 {
	if int(k.carrier) == x {
		k.told[x] = opened | k.members
		k.carrier, k.members = nobody, 0
	} else if !k.ended[x] && k.told[x] == 0 {
		k.told[x] = opened | 1<<x
	}
	if k.ended[x] {
		return 0
	}
	return k.told[x] &^ opened
}

// read is what a look without a seal would tell.
func (k *keys) read(x int) uint8 {
	if int(k.carrier) == x {
		return k.members
	}
	return 1 << x
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
	ask           // to join, else what the limits say
	carry         // it is deferred
	makeRoom      // the carrier is full: seal that one
	granted       // seal
	cutShort      // seal before it ends otherwise
	late          // seal after it has ended: the first mistake
	send          // what was sealed
	settle        // its end
	putDown       // the job is done
	queued    = 0 // of a job; 1 and on is whose hands it is in
	gone      = 9
	operators = 2 // the number of who cancels, after the workers
)

// A world is all that there is, and nothing else: what follows depends on it alone.
type world struct {
	keys
	job      [few]int8
	deferred [few]bool
	accounts [few]uint8 // what its push, or its end with a letter, has told of
	at       [3]int8    // what each worker, and who cancels, is about to do
	has      [3]int8
	list     [3]uint8 // what it has sealed
	full     [3]int8
	crashes  int8
	cancels  int8
	cut      [3]bool // the end is not by a push
}

// A mistake is one that the exploration is to find.
type mistake int

const (
	none          mistake = iota
	endBeforeSeal         // the end of what is not sent comes before its seal
	readForSeal           // what is sent is looked at, and not sealed
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
	x := int(w.has[who])
	if w.at[who] == idle {
		for y := range few {
			switch {
			case who == operators && w.cancels > 0 && w.job[y] == queued && !(int(w.carrier) == y && count(w.members) > 1) && count(w.told[y]&^opened) <= 1:
				to(cutShort, func(w *world) { w.cancels--; w.has[who] = int8(y) })
			case who != operators && w.job[y] == queued:
				to(load, func(w *world) { w.job[y], w.has[who] = int8(1+who), int8(y) })
			}
		}
		return next
	}
	if who == operators { // seals, and then takes what is on the queue still, unless it carries others
		told := w.list[who]
		switch {
		case w.at[who] == cutShort:
			to(settle, func(w *world) { w.list[who] = w.seal(x) })
		case told == 1<<x && w.job[x] == queued && !w.ended[x]:
			to(idle, func(w *world) { w.ended[x] = true; w.job[x] = gone; e.account(w, x, told); w.list[who] = 0 })
		default:
			to(idle, func(w *world) { w.list[who] = 0 })
		}
		return next
	}
	if w.crashes > 0 { // the job comes back; or else the worker goes on, and has only lost it
		back := func(w *world) {
			w.crashes--
			if w.job[x] == int8(1+who) {
				w.job[x] = queued
			}
		}
		to(idle, func(w *world) { back(w); w.list[who], w.cut[who], w.full[who] = 0, false, 0 })
		to(w.at[who], back)
	}
	switch w.at[who] {
	case load:
		if w.ended[x] {
			to(putDown, nil)
		} else {
			to(ask, nil)
		}
	case ask:
		switch answer, _ := w.join(x, false, e.most); answer {
		case "joined", "ended":
			to(putDown, nil)
		default:
			to(granted, nil)
			if e.mistake == endBeforeSeal {
				to(settle, func(w *world) { w.cut[who], w.list[who] = true, w.read(x) })
			} else {
				to(cutShort, nil)
			}
			if !w.deferred[x] {
				to(carry, func(w *world) { w.deferred[x] = true })
			}
		}
	case carry:
		switch answer, other := w.join(x, true, e.most); answer {
		case "joined", "ended":
			to(putDown, nil)
		case "full":
			to(makeRoom, func(w *world) { w.full[who] = int8(other) })
		default:
			to(idle, func(w *world) {
				if w.job[x] == int8(1+who) {
					w.job[x] = queued
				}
			})
		}
	case makeRoom:
		to(carry, func(w *world) { w.seal(int(w.full[who])); w.full[who] = 0 })
	case granted, cutShort:
		cut := w.at[who] == cutShort
		told := w.read(x)
		if cut || e.mistake != readForSeal {
			told = w.seal(x)
		}
		switch {
		case told == 0:
			to(putDown, nil)
		case cut:
			to(settle, func(w *world) { w.cut[who], w.list[who] = true, told })
		default:
			to(send, func(w *world) { w.list[who] = told })
		}
	case send:
		to(settle, func(w *world) { e.account(w, x, w.list[who]) })
	case settle:
		then := int8(putDown)
		if w.cut[who] && e.mistake == endBeforeSeal {
			then = late
		}
		to(then, func(w *world) {
			if w.cut[who] && !w.ended[x] {
				e.account(w, x, w.list[who])
			}
			w.ended[x], w.list[who], w.cut[who] = true, 0, false
		})
	case late:
		to(putDown, func(w *world) { w.seal(x) })
	case putDown:
		to(idle, func(w *world) {
			if w.job[x] == int8(1+who) {
				w.job[x] = gone
			}
		})
	}
	return next
}

func explore(most int, m mistake, crashes, cancels int8) *explorer {
	e := &explorer{most: most, mistake: m, seen: map[world]bool{}}
	e.explore(world{keys: keys{carrier: nobody}, crashes: crashes, cancels: cancels})
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

// The exploration finds what goes wrong without a seal, or with a late one.
func TestDigestModelFindsMistakes(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]mistake{"an end before its seal": endBeforeSeal, "a read instead of a seal": readForSeal} {
		if explore(few, m, 0, 0).lost == "" {
			t.Errorf("%s: nothing is found", name)
		}
	}
}
