package throttle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/base/zone"
)

// A simUser has a timeline and the scopes of its jobs.
type simUser struct {
	name       string
	categories []string // "" for a job without category
	general    bool
	limits     map[string]Policy
}

func (w *world) addUser(name string) {
	u := &simUser{name: name, categories: []string{""}, general: true, limits: map[string]Policy{General: w.setQuiet(randomPolicy(w.rng))}}
	switch w.rng.IntN(4) {
	case 0:
	case 1:
		u.categories = []string{"a"}
		u.general = w.rng.IntN(2) == 0
	case 2:
		u.categories = []string{"a", "b"}
	case 3:
		u.categories = []string{"", "a", "b"}
	}
	for _, c := range u.categories {
		if c != "" {
			u.limits[c] = w.setQuiet(randomPolicy(w.rng))
		}
	}
	w.users = append(w.users, u)
	for _, worker := range w.workers {
		for scope, p := range u.limits {
			worker.limits[name+"/"+scope] = p
		}
	}
}

// A job is one notification.
type job struct {
	id       string
	user     *simUser
	category string
	horizon  time.Duration
	zone     *time.Location
	passes   bool

	twin      bool
	troubled  bool // a call for it failed
	sent      bool
	cancelled bool
	open      int   // running deliveries
	over      int64 // execution time of the last call with a received reply, µs
	ghost     int64 // time of the last round trip executed without a caller, µs
	unheard   int   // that round trip's position among all decisions
	waiting   []*delivery
}

// A delivery is a job in flight, or on its way to a worker.
type delivery struct {
	job      *job
	acquires int
	visit    int // detects an outdated wake-up
}

func (w *world) addJob(u *simUser, at int64) {
	r := w.rng
	id := fmt.Sprintf("n%d", len(w.jobs))
	switch r.IntN(4) {
	case 0:
		id = fmt.Sprintf("00000000-0000-4000-8000-%012d", len(w.jobs))
	case 1:
		id += strings.Repeat("x", 40)
	}
	j := &job{id: id, user: u, category: u.categories[r.IntN(len(u.categories))], horizon: time.Hour}
	if r.IntN(15) == 0 {
		j.horizon = time.Duration(r.Int64N(500)) * time.Millisecond
	}
	w.night(j)
	w.jobs = append(w.jobs, j)
	deliver := func(at int64) {
		d := &delivery{job: j}
		j.open++
		w.at(at, func() { w.deliver(d) })
	}
	deliver(at)
	if w.chance(w.p.twin) {
		j.twin = true
		w.figures.twins++
		deliver(at + r.Int64N(r.Int64N(800*ms)+1))
	}
	if w.chance(w.p.cancel) {
		w.at(at+r.Int64N(2*second), func() { w.cancelJob(j) })
	}
}

// request returns the worker's request for the job, with the limits that the worker knows.
func (s *simWorker) request(j *job) Request {
	r := Request{User: j.user.name, ID: j.id, Category: j.category, Horizon: j.horizon, Zone: j.zone, IgnoreQuiet: j.passes}
	if j.user.general {
		r.Scopes = append(r.Scopes, Scope{General, s.limits[j.user.name+"/"+General]})
	}
	if j.category != "" {
		r.Scopes = append(r.Scopes, Scope{j.category, s.limits[j.user.name+"/"+j.category]})
	}
	return r
}

// freeWorker returns a worker with a free pipeline, or nil.
func (w *world) freeWorker() *simWorker {
	first := w.rng.IntN(len(w.workers))
	for i := range w.workers {
		if s := w.workers[(first+i)%len(w.workers)]; s.pending < laneCount {
			return s
		}
	}
	return nil
}

func (w *world) deliver(d *delivery) {
	j := d.job
	d.visit++
	j.waiting = slices.DeleteFunc(j.waiting, func(o *delivery) bool { return o == d })
	worker := w.freeWorker()
	if worker == nil {
		w.again(d, ms)
		return
	}
	if j.cancelled {
		w.giveBack(j, func() { w.end(d) })
		return
	}
	d.acquires++
	if d.acquires > 150 {
		w.fault("%s starves: %d acquires", j.id, d.acquires)
		return
	}
	w.figures.acquires++
	c := &simCall{worker: worker, job: j, request: worker.request(j), then: func(c *simCall) { w.acquired(d, c) }}
	w.start(c, func(ctx context.Context, c *simCall) {
		c.decision, c.err = worker.limiter.Acquire(ctx, c.request)
	})
}

// again delivers after in µs, unless the delivery is woken before.
func (w *world) again(d *delivery, in int64) {
	d.visit++
	visit := d.visit
	w.after(max(0, in), func() {
		if d.visit == visit {
			w.deliver(d)
		}
	})
}

func (w *world) acquired(d *delivery, c *simCall) {
	j := d.job
	if c.err != nil {
		w.say("%s error: %v", j.id, c.err)
		j.troubled = true
		w.again(d, w.rng.Int64N(w.rng.Int64N(3*second)+1))
		return
	}
	w.say("%s %s at %+.3f ms left %v %s %s", j.id, c.decision.Status,
		float64(c.decision.At.UnixMicro()-epoch.UnixMicro())/1000, c.decision.Left, c.decision.Scope, c.decision.Rule)
	j.over = max(j.over, c.executed)
	w.follow(j.user, c.decision.FollowUp)
	switch c.decision.Status {
	case Deferred:
		if w.judgeSlot("waits", j, c.request.Scopes, c.decision.At); !c.decision.Quiet.IsZero() {
			w.figures.held++
		}
		if j.cancelled {
			w.giveBack(j, func() { w.end(d) })
			return
		}
		j.waiting = append(j.waiting, d)
		in := c.decision.At.UnixMicro() - w.serverNow()
		switch {
		case w.chance(w.p.late):
			in += w.rng.Int64N(w.rng.Int64N(2*second) + 1)
		case w.chance(w.p.early):
			in -= w.rng.Int64N(second)
		}
		w.again(d, in)
	case Refused:
		w.figures.refused++
		w.end(d)
	case Granted:
		w.granted(d, c)
	default:
		w.fault("%s: %s at %v", j.id, c.decision.Status, c.decision.At)
	}
}

// granted handles an admission as a worker does.
func (w *world) granted(d *delivery, c *simCall) {
	j := d.job
	if j.cancelled {
		w.giveBack(j, func() { w.end(d) })
		return
	}
	w.figures.granted++
	ahead := c.decision.At.Sub(c.decision.Now).Microseconds()
	if j.passes {
		if all := c.request; all.closed(c.decided).opened(c.decided) > c.decided {
			w.figures.passed++
		}
	}
	a := &admission{job: j, scopes: c.request.Scopes, order: c.order,
		at: c.decision.At.UnixMicro(), instant: c.decided + ahead}
	w.log = append(w.log, a)
	left := c.decision.Left.Microseconds()
	if w.p.jolts == 0 { // a grant is dated after a denied claim of the same job
		a.instant = min(a.instant, w.serverNow()+left)
	}
	w.after(left, func() {
		switch {
		case j.cancelled: // before it was sent
			a.void = true
			w.giveBack(j, func() { w.end(d) })
		case w.chance(w.p.lose / 2): // sent, and the worker crashed before it recorded the result
			j.sent, j.troubled = true, true
			w.again(d, w.rng.Int64N(3*second))
		case !j.twin && !j.troubled && w.chance(w.p.giveBack): // the provider rejected it
			a.void = true
			w.giveBack(j, func() { w.end(d) })
		default:
			j.sent = true
			w.end(d)
		}
	})
}

func (w *world) end(d *delivery) {
	d.job.open--
	w.figures.deliveries++
	w.figures.most = max(w.figures.most, d.acquires)
}

// giveBack retries Cancel until it succeeds.
func (w *world) giveBack(j *job, then func()) {
	worker := w.freeWorker()
	if worker == nil {
		w.after(ms, func() { w.giveBack(j, then) })
		return
	}
	c := &simCall{worker: worker, job: j, request: worker.request(j)}
	c.then = func(c *simCall) {
		if c.err != nil {
			w.after(w.rng.Int64N(second), func() { w.giveBack(j, then) })
			return
		}
		j.over = max(j.over, c.executed)
		w.follow(j.user, c.placed)
		then()
	}
	w.start(c, func(ctx context.Context, c *simCall) { c.placed, c.err = worker.limiter.Cancel(ctx, c.request) })
}

// cancelJob cancels the job as a producer does.
func (w *world) cancelJob(j *job) {
	if j.open == 0 || j.sent || j.cancelled {
		return
	}
	w.say("%s is cancelled", j.id)
	w.figures.cancels++
	j.cancelled = true
	j.open++
	w.giveBack(j, func() { j.open-- })
}

// follow handles FollowUp as a worker does, but loses one wake-up in five. It wakes the early jobs,
// and after p.After reschedules the other lines. If p.After is not zero, it also reschedules the
// lines of the user's categories.
func (w *world) follow(u *simUser, p FollowUp) {
	for _, b := range p.Early {
		for _, j := range w.jobs {
			if j.user == u && j.id == b.ID {
				w.judgeSlot("is woken", j, w.workers[0].request(j).Scopes, b.Slot)
			}
			if j.user == u && j.id == b.ID && w.rng.IntN(5) > 0 {
				for _, d := range slices.Clone(j.waiting) {
					w.again(d, b.Slot.UnixMicro()-w.serverNow())
				}
			}
		}
	}
	lines := p.Others
	if p.After > 0 {
		for _, category := range u.categories {
			lines = append(lines, Line{Category: category})
		}
	}
	for _, line := range lines {
		w.after(p.After.Microseconds(), func() { w.replan(u, line, true) })
	}
}

// replan reschedules a line of the user.
func (w *world) replan(u *simUser, line Line, leaver bool) {
	worker := w.freeWorker()
	if worker == nil || w.closing {
		return
	}
	j := &job{user: u, category: line.Category}
	if line.Zone != "" {
		j.zone, _ = zone.Load(line.Zone)
	}
	c := &simCall{worker: worker, request: worker.request(j), then: func(c *simCall) {
		if p := c.placed; c.err == nil {
			p.Others, p.After = nil, 0
			w.follow(u, p)
		}
	}}
	c.request.AfterLeave = leaver
	w.start(c, func(ctx context.Context, c *simCall) {
		c.placed, c.err = worker.limiter.Replan(ctx, []Request{c.request})
	})
}

// crash ends the worker's process and starts it again.
func (w *world) crash(s *simWorker) {
	w.say("%s crashes", s.name)
	w.figures.crashes++
	for s.pending > 0 {
		var first *trip
		for t := range w.pending {
			if t.worker == s && (first == nil || t.number < first.number) {
				first = t
			}
		}
		if !first.executed && w.chance(0.5) {
			w.haunt(first)
		}
		w.lose(first, 0)
	}
	w.must(s.limiter.Close())
	w.must(s.client.Close())
	s.start()
}

// changeLimits changes the policy of a user's scope. Each worker learns of the change at a random
// time, and one worker reschedules the lines.
func (w *world) changeLimits() {
	u := w.users[w.rng.IntN(len(w.users))]
	names := []string{General}
	if !u.general {
		names = nil
	}
	for _, c := range u.categories {
		if c != "" {
			names = append(names, c)
		}
	}
	name := names[w.rng.IntN(len(names))]
	p := adjust(w.rng, u.limits[name])
	if p.Quiet, p.Night = u.limits[name].Quiet, u.limits[name].Night; w.rng.IntN(2) == 0 {
		p = w.setQuiet(p)
	}
	u.limits[name] = p
	w.figures.changes++
	w.say("%s/%s becomes %+v", u.name, name, p)
	for _, s := range w.workers {
		w.after(w.rng.Int64N(500*ms), func() { s.limits[u.name+"/"+name] = p })
	}
	w.after(500*ms, func() {
		for _, category := range u.categories {
			w.replan(u, Line{Category: category}, false)
		}
	})
}
