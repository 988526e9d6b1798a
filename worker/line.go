package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/queue"
)

// lines keep the order of acceptance among the claimed jobs of a user and category in this process.
// A job waits until each job ahead of it is granted, deferred or ended, but not until
// it is sent.
type lines struct {
	// ask asks the limiter about the first delivery of a line and the turns that the function more
	// returns. The answers are in this order, and at least for the first delivery.
	ask func(ctx context.Context, first *turn, more func() []*turn) []answer
	// timeout is how long a job waits for its turn.
	timeout time.Duration

	mu   sync.Mutex
	open map[lineKey]*line
}

// A lineKey identifies a line. Each queue has its own lines, as jobs of different priorities may
// pass each other.
type lineKey struct{ queue, app, user, category string }

type line struct {
	key    lineKey
	turns  []*turn // sorted by since
	asking bool    // the limiter is being asked about turns that were taken out of turns
}

// A turn is a delivery's position in its line.
type turn struct {
	*delivery
	// id and since determine the position, and do not change when the delivery becomes the push of its
	// digest.
	id    string
	since time.Time

	line    *line
	stays   bool          // its last answer was near: it is in the line still
	ready   bool          // the delivery waits for its answer
	mustAsk chan struct{} // receives when the delivery must ask
	reply   chan answer   // receives the limiter's answer
}

// An answer is the limiter's decision or an error.
type answer struct {
	throttle.Decision
	err error
}

// near reports whether the visit waits for its slot, because a return to the queue may take longer. Its
// turn stays in the line meanwhile, so that no turn behind it passes.
func (a *answer) near() bool {
	return a.err == nil && a.Status == throttle.Deferred && !a.Slotless && a.Left <= departureTimeout
}

// turnTimeout is lines.timeout outside of tests. A job ahead may wait up to route.MaxWait for
// units, and the jobs behind it may need no units.
const turnTimeout = time.Second

func newLines(timeout time.Duration, ask func(context.Context, *turn, func() []*turn) []answer) *lines {
	return &lines{ask: ask, timeout: timeout, open: make(map[lineKey]*line)}
}

// enter gives the delivery its turn, behind the deliveries that were due earlier.
func (l *lines) enter(d *delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := lineKey{d.queue, d.App, d.User, d.Category}
	in := l.open[key]
	if in == nil {
		in = &line{key: key}
		l.open[key] = in
	}
	d.turn = &turn{delivery: d, id: d.ID, since: d.due(), line: in, mustAsk: make(chan struct{}, 1), reply: make(chan answer, 1)}
	in.insert(d.turn)
}

func (in *line) insert(t *turn) {
	i := len(in.turns)
	for i > 0 && in.turns[i-1].since.After(t.since) {
		i--
	}
	in.turns = slices.Insert(in.turns, i, t)
}

// leave takes the delivery out of its line, if it is there.
func (l *lines) leave(d *delivery) {
	if d.turn != nil {
		l.remove(d.turn)
		d.turn = nil
	}
}

// remove takes the turn out of its line, and reports whether it was there.
func (l *lines) remove(t *turn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := t.line
	i := slices.Index(in.turns, t)
	if i < 0 {
		return false
	}
	in.turns = slices.Delete(in.turns, i, i+1)
	l.wakeFirst(in)
	return true
}

// wakeFirst signals the first delivery of the line to ask, if it is ready.
func (l *lines) wakeFirst(in *line) {
	if !in.asking && len(in.turns) > 0 && in.turns[0].ready {
		first := in.turns[0]
		in.turns, in.asking = in.turns[1:], true
		first.mustAsk <- struct{}{}
	}
	if len(in.turns) == 0 && !in.asking {
		delete(l.open, in.key)
	}
}

// behind removes and returns the ready turns that follow first. A metered delivery asks alone, as
// it takes its units first. A job has two turns if another worker claimed it between two claims of
// this worker: behind takes only one of them.
func (l *lines) behind(first *turn) []*turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	in, n := first.line, 0
	for n < len(in.turns) && n+1 < queue.MaxPull && !first.metered {
		t := in.turns[n]
		same := func(other *turn) bool { return other.id == t.id }
		if !t.ready || t.metered || same(first) || slices.ContainsFunc(in.turns[:n], same) {
			break
		}
		n++
	}
	taken := slices.Clone(in.turns[:n])
	in.turns = in.turns[n:]
	return taken
}

// errNotAsked is the answer to all turns of a call that has panicked.
var errNotAsked = errors.New("the limiter was not asked")

// askFor asks about first and the ready turns behind it, and answers each turn, also after a panic.
func (l *lines) askFor(ctx context.Context, first *turn) {
	together := []*turn{first}
	answers := []answer{{err: errNotAsked}}
	defer func() { l.sendAnswers(together, answers) }()
	got := l.ask(ctx, first, func() []*turn {
		together = append(together, l.behind(first)...)
		answers = slices.Repeat(answers, len(together))
		return together[1:]
	})
	if ctx.Err() != nil { // ctx belongs to first: the other turns ask again
		got = got[:1]
	}
	answers = got
}

// sendAnswers sends each answer to its turn, and puts turns without an answer back into the line.
func (l *lines) sendAnswers(together []*turn, answers []answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := together[0].line
	in.asking = false
	for i := range answers {
		t := together[i]
		t.ready, t.stays = false, answers[i].near()
		if t.stays {
			in.insert(t)
		}
		t.reply <- answers[i]
	}
	for _, t := range together[len(answers):] {
		t.release()
		in.insert(t)
	}
	l.wakeFirst(in)
}

// askInTurn asks about the delivery in its turn, or out of turn after l.timeout or when ctx ends.
func (l *lines) askInTurn(ctx context.Context, d *delivery) answer {
	if d.turn == nil {
		l.enter(d)
	}
	t := d.turn
	d.turn = nil
	l.mu.Lock()
	t.ready = true
	l.wakeFirst(t.line)
	l.mu.Unlock()
	timeout := time.NewTimer(l.timeout)
	defer timeout.Stop()
	ended := ctx.Done()
	for {
		select {
		case <-t.mustAsk:
			l.askFor(ctx, t)
			continue
		case a := <-t.reply:
			if t.stays {
				d.turn = t
			}
			return a
		case <-timeout.C:
			timeout.Reset(l.timeout)
		case <-ended:
			ended = nil
		}
		if l.remove(t) {
			return l.ask(ctx, t, func() []*turn { return nil })[0]
		}
	}
}
