package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// lines have a user's jobs that this process has in hand decided in the order of acceptance:
// a job waits for those of its category ahead of it until they are granted, put off or
// ended, and not until they are sent. One that is to ask before its slot, later, holds
// nobody up until then. Consecutive jobs of one category are decided together. More are not:
// the categories share the general limits, and the slots of a whole row of one category
// would push the others' far behind.
type lines struct {
	// ask asks the throttle about deliveries of one line. It returns answers for the
	// first of them, at least for one.
	ask func(ctx context.Context, together []*turn) []answer

	mu   sync.Mutex
	open map[lineKey]*line
}

// A lineKey says whose line it is. Jobs of another queue are more or less urgent: they
// may pass, and be passed.
type lineKey struct{ queue, app, user string }

type line struct {
	key    lineKey
	turns  []*turn  // in the order of acceptance
	asking []string // categories of which a delivery asks the throttle
}

// A turn is a delivery's place in its line.
type turn struct {
	*delivery
	// What says its place stays, also while the delivery takes up what a digest tells of.
	id, category string
	since        time.Time

	line  *line
	ready bool         // the delivery waits for its answer
	asks  time.Time    // when it is to ask at first
	lead  chan []*turn // gets the turns, this one first, that the delivery is to ask about
	told  chan answer  // gets its answer
}

// An answer is the throttle's, or why there is none.
type answer struct {
	throttle.Decision
	err error
}

const (
	// mostTogether is how many jobs are decided together at most.
	mostTogether = 64
	// patience is how long a job waits for its turn: one ahead for which a provider has
	// no units may take longer, and must not delay others.
	patience = time.Second
)

func newLines(ask func(context.Context, []*turn) []answer) *lines {
	return &lines{ask: ask, open: make(map[lineKey]*line)}
}

// enter gives the delivery its turn, behind those that were accepted earlier.
func (l *lines) enter(d *delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := lineKey{d.queue, d.App, d.User}
	in := l.open[key]
	if in == nil {
		in = &line{key: key}
		l.open[key] = in
	}
	d.turn = &turn{delivery: d, id: d.ID, category: d.Category, since: d.due(), line: in, lead: make(chan []*turn, 1), told: make(chan answer, 1)}
	in.insert(d.turn)
}

func (in *line) insert(t *turn) {
	i := len(in.turns)
	for i > 0 && in.turns[i-1].since.After(t.since) {
		i--
	}
	in.turns = slices.Insert(in.turns, i, t)
}

// leave takes the delivery out of its line, and reports whether it was there.
func (l *lines) leave(d *delivery) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d.turn == nil {
		return false
	}
	in := d.turn.line
	i := slices.Index(in.turns, d.turn)
	if i < 0 {
		return false
	}
	in.turns = slices.Delete(in.turns, i, i+1)
	l.next(in)
	return true
}

// next has the turns of the line be asked about that have come.
func (l *lines) next(in *line) {
	now := time.Now()
	var held []string // categories of which one is ahead that is not ready
	for i := 0; i < len(in.turns); {
		switch t := in.turns[i]; {
		case slices.Contains(in.asking, t.category), t.later(now), slices.Contains(held, t.category):
			i++
		case !t.ready:
			held = append(held, t.category)
			i++
		default:
			asked := together(in.turns[i:], now)
			in.turns = slices.DeleteFunc(in.turns, func(t *turn) bool { return slices.Contains(asked, t) })
			in.asking = append(in.asking, t.category)
			t.lead <- asked
		}
	}
	if len(in.turns) == 0 && len(in.asking) == 0 {
		delete(l.open, in.key)
	}
}

// later reports whether the delivery has a slot to ask before, and that is not yet.
func (t *turn) later(now time.Time) bool { return t.ready && now.Before(t.asks) }

// same reports whether the other turn is of the same notification: a job that another
// worker has had meanwhile may come again before its first visit here is over.
func (t *turn) same(other *turn) bool { return t.id == other.id }

// together returns the turns from the first one on that are asked about with it. A
// delivery that costs units is alone: it takes them first.
func together(turns []*turn, now time.Time) (all []*turn) {
	first := turns[0]
	for _, t := range turns {
		switch {
		case t.later(now):
		case len(all) == mostTogether, !t.ready, t.category != first.category, t != first && (first.metered || t.metered), slices.ContainsFunc(all, t.same):
			return all
		default:
			all = append(all, t)
		}
	}
	return all
}

// errNotAsked is the answer to those whom a panic has left without one.
var errNotAsked = errors.New("the throttle was not asked")

// askFor asks about the turns, and tells them, also where that panics.
func (l *lines) askFor(ctx context.Context, together []*turn) {
	answers := slices.Repeat([]answer{{err: errNotAsked}}, len(together))
	defer func() { l.answered(together, answers) }()
	answers = l.ask(ctx, together)
	if ctx.Err() != nil { // which says nothing of the others
		answers = answers[:1]
	}
}

// answered tells the first of those that were asked about their answers. The others are
// in the line again.
func (l *lines) answered(together []*turn, answers []answer) {
	for i := range answers {
		together[i].told <- answers[i]
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	in := together[0].line
	in.asking = slices.DeleteFunc(in.asking, func(category string) bool { return category == together[0].category })
	for _, t := range together[len(answers):] {
		in.insert(t)
	}
	l.next(in)
}

// decide decides of the delivery in its turn, after so long, or out of turn where that
// does not come.
func (l *lines) decide(ctx context.Context, d *delivery, after time.Duration) answer {
	if d.turn == nil {
		l.enter(d)
	}
	t := d.turn
	defer func() { d.turn = nil }()
	l.mu.Lock()
	t.ready, t.asks = true, time.Now().Add(after)
	l.next(t.line)
	l.mu.Unlock()
	timer, asks := time.NewTimer(after), true // the timer ends when it asks, and patience later
	defer timer.Stop()
	ended := ctx.Done()
	for {
		select {
		case together := <-t.lead:
			l.askFor(ctx, together)
			continue
		case told := <-t.told:
			return told
		case <-timer.C:
			timer.Reset(patience)
			if asks {
				asks = false
				l.mu.Lock()
				l.next(t.line)
				l.mu.Unlock()
				continue
			}
		case <-ended:
			ended = nil
		}
		if l.leave(d) {
			return l.ask(ctx, []*turn{t})[0]
		}
	}
}
