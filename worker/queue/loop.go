package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/clock"
)

// The loop pulls from the queues, the most urgent first, as many jobs as there is room for, and
// works each off in a goroutine of its own. A queue that was found empty is not asked again
// before a word comes, the next of its delayed jobs is due, or a poll's time is over.

const (
	// turnEvery is every how many rounds the least urgent queue comes first. Where critical jobs take
	// each hand that becomes free, the others have an eighth of them, as of a route's places.
	turnEvery = 8
	// AtOnce is how many jobs a pull takes from a queue at most: it occupies Redis for less than a
	// millisecond.
	AtOnce = 64
	// bulkAtOnce is how many bulk ones: a critical one waits for the processor behind them. Behind
	// 64 it left 10 ms after it was accepted, behind 12 after 3 ms, and the bulk ones were a fifth
	// slower beside it.
	bulkAtOnce = 12
	// roomPause is after how long a loop looks again whether there is room for a job, a hand or a
	// place before its provider. Most answers of providers take longer, and a pull takes several then.
	roomPause = 20 * time.Millisecond
	// failedPause is how long nothing is pulled after a pull that failed: a Redis in trouble is
	// asked ten times a second at most, and one that is back serves at once.
	failedPause = 100 * time.Millisecond
)

// A taken job is in hand.
type taken struct {
	Job
	work Work
}

// run pulls until the server ends. ctx is that of the work.
func (s *Server) run(ctx context.Context) {
	trouble := clock.Trouble{
		Log:    s.RedisLog.With("shard", s.Records.Number),
		Begins: "nothing is taken from a shard's queues: Redis does not hand out jobs",
		Ends:   "jobs are taken from the shard's queues again",
	}
	for round := 1; s.ending.Err() == nil; round++ {
		if !s.mayPull() {
			_ = clock.Sleep(s.ending, failedPause)
			continue
		}
		if s.Hands.full(push.Critical.Queue()) {
			s.Hands.wait(s.ending)
			continue
		}
		found, full, err := s.round(ctx, round)
		trouble.Failing(s.ending, err)
		switch {
		case found:
		case err != nil:
			_ = clock.Sleep(s.ending, failedPause)
		case full:
			s.Hands.wait(s.ending)
		default:
			s.idle.wait(s.ending, s.parks())
		}
	}
}

// mayPull reports whether jobs may be taken in hand: what is sent can be recorded, and no other
// worker takes this one for dead.
func (s *Server) mayPull() bool { return !s.refusals.recording() && s.life.term.Load().Sure() }

// round pulls once from each queue that there may be a job on. It reports whether there was any,
// and whether there may be one that no hand is free for.
func (s *Server) round(ctx context.Context, n int) (found, full bool, err error) {
	order := slices.Clone(shard.Queues)
	if n%turnEvery == 0 {
		slices.Reverse(order)
	}
	for _, queue := range order {
		if s.Hands.full(queue) {
			full = full || s.idle.now(queue)
			continue
		}
		if !s.idle.claim(queue) && !s.unparks(queue) {
			continue
		}
		some, failed := s.pull(ctx, queue)
		s.refusals.pulled(queue, failed)
		found, err = found || some, cmp.Or(err, failed)
		if redisreply.OfItsKeys(failed) { // which stops no other queue
			s.idle.ask(queue, failedPause)
			continue
		}
		if s.failed.Store(failed != nil); failed != nil {
			s.life.suspect()
			s.idle.ask(queue, 0)
			return found, full, err
		}
	}
	return found, full, err
}

// pull takes jobs of the queue in hand, and reports whether there were any.
func (s *Server) pull(ctx context.Context, queue string) (found bool, err error) {
	got, err := s.take(queue)
	if len(got) > 0 {
		s.idle.ask(queue, 0)
	}
	for i := range got {
		s.begin(ctx, &got[i])
	}
	return len(got) > 0, err
}

// take takes jobs of the queue in hand. Where it is empty then, the queue is not asked now.
func (s *Server) take(queue string) (jobs []Job, err error) {
	most := AtOnce
	switch {
	case s.failed.Load():
		most = 1 // what a lost answer holds is nobody's until its term ends
	case queue == push.Bulk.Queue():
		most = bulkAtOnce
	}
	term := s.life.hold()
	defer term.free()
	hands := s.Hands.reserve(queue, most)
	defer func() { s.Hands.took(queue, hands, len(jobs)) }()
	if hands == 0 { // other shards' pulls have all
		s.idle.ask(queue, roomPause)
		return nil, nil
	}
	bounds, taken := s.Room(queue, hands, s.parkedOn(queue))
	defer func() { taken(jobs) }()
	ctx := context.WithoutCancel(s.ending) // what a pull has taken that is given up is nobody's
	got, err := s.Records.Pull(ctx, store.Pull{Queue: queue, Most: hands, Term: term.id, Visit: term.visit(), Bounds: bounds})
	if err != nil {
		return nil, err
	}
	s.setAside(ctx, got.Unfit)
	if got.Empty && got.Due >= 0 {
		s.idle.dueIn(queue, got.Due)
	} else if !got.Empty {
		s.idle.ask(queue, 0)
	}
	s.mu.Lock()
	s.parked[queue] = got.Parked
	s.mu.Unlock()
	for _, job := range got.Jobs {
		term.held.Add(1)
		jobs = append(jobs, Job{Job: job, Term: term, At: s})
	}
	return jobs, nil
}

// parkedOn returns by which names jobs of the queue are parked, as the last pull tells.
func (s *Server) parkedOn(queue string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parked[queue]
}

// parks reports whether jobs of any queue are parked, as far as the last pulls tell.
func (s *Server) parks() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, routes := range s.parked {
		if len(routes) > 0 {
			return true
		}
	}
	return false
}

// unparks reports whether there is room for some of the queue's parked jobs.
func (s *Server) unparks(queue string) bool {
	parked := s.parkedOn(queue)
	return len(parked) > 0 && s.Opens(queue, parked)
}

// begin has a job worked off, which takes its turn before the next one is begun.
func (s *Server) begin(ctx context.Context, job *Job) {
	t := &taken{Job: *job}
	s.mu.Lock()
	s.begun++
	s.inHand[t] = s.begun
	s.mu.Unlock()
	t.work = s.workOf(t)
	s.working.Go(func() {
		growStack()
		s.work(ctx, t)
	})
}

// workOf takes a job in hand. A panic over it costs that job its visit alone.
func (s *Server) workOf(t *taken) (work Work) {
	defer func() {
		if cause := recover(); cause != nil {
			back := s.panicked(context.Background(), t.ID, cause)
			work = func(context.Context) Result { return back }
		}
	}()
	return s.handler.Take(t.Job)
}

// work works a job off, and takes it out of hand.
func (s *Server) work(ctx context.Context, t *taken) {
	defer s.letGo(t)
	switch to := s.handle(ctx, t).(type) {
	case Ended:
		s.finish(t, to.Outcomes)
	case Back:
		if !t.Term.Lost(ctx) {
			s.putOff(t, &to)
		} else if to.Unnoted != nil {
			to.Unnoted()
		}
	case Aside:
		if !t.Term.Lost(ctx) {
			s.setAside(ctx, []store.Unfit{{Job: t.Job.Job, Reason: to.Reason, Why: to.Why}})
		}
	}
}

// handle calls the handler.
func (s *Server) handle(ctx context.Context, t *taken) (to Result) {
	defer func() {
		if cause := recover(); cause != nil {
			to = s.panicked(ctx, t.ID, cause)
		}
	}()
	return t.work(ctx)
}

// letGo has the job no longer in hand.
func (s *Server) letGo(t *taken) {
	t.Arrived() // if it has not
	s.mu.Lock()
	delete(s.inHand, t)
	s.mu.Unlock()
	t.Term.free()
	s.Hands.free(t.Queue)
}

// putOff returns the job to its queue for later. If the record cannot be updated, it returns the
// job without that.
func (s *Server) putOff(t *taken, back *Back) {
	unnoted := back.Attempt != nil && back.Unnoted != nil
	if s.insist(t, "a job does not return to its queue, and comes back when this worker's term ends", func(ctx context.Context) error {
		err := s.Records.PutOff(ctx, &t.Job.Job, &back.PutOff)
		if errors.Is(err, store.ErrUnnoted) {
			s.repeats.Tell(ctx, s.RedisLog, slog.LevelWarn, "a record does not say that its notification was put off", nil, slog.String("task", t.ID), slog.Any("error", err))
			back.PutOff = unrecorded(&back.PutOff, err)
			err = s.Records.PutOff(ctx, &t.Job.Job, &back.PutOff)
		}
		return err
	}) {
		s.idle.dueIn(t.Queue, back.Left(time.Now()))
		unnoted = unnoted && back.Attempt == nil
	}
	if unnoted {
		back.Unnoted()
	}
}

// unrecorded returns the job without an update of its record.
func unrecorded(p *store.PutOff, cause error) store.PutOff {
	to := store.PutOff{Return: p.Return}
	if p.Attempt != nil {
		to.Why, to.Detail, to.Failed = store.Unrecorded, cause.Error(), true
	}
	return to
}

// A batch is jobs that end at about the same time, and share a command.
type batch struct{ *store.Ends }

// finish ends the job. If the notification is delivered, by this visit or by an earlier one that
// could not record it, the same step ends the notification.
func (s *Server) finish(t *taken, delivered []store.TargetOutcome) {
	if delivered != nil {
		s.settles.Add(t.ID, delivered)
	}
	outcomes, settles := s.settles.Get(t.ID)
	if s.insist(t, "a job is done and not off its queue, and comes back when this worker's term ends", func(ctx context.Context) error {
		return s.batches.Do(ctx, s.Records.QueueKey(t.Queue, "active"), t.Queue,
			func() batch { return batch{s.Records.NewEnds(t.Queue)} },
			func(b batch) {
				if settles {
					b.Settle(&t.Job.Job, outcomes)
				} else {
					b.Add(&t.Job.Job)
				}
			})
	}) && settles {
		s.settles.Remove(t.ID)
	}
}

// insistFor is how long a move that takes a job out of hand is repeated: longer than a failover
// takes, some 15 to 30 s. It does nothing to a job that is not in this hand any more.
const insistFor = time.Minute

// insist makes a move that takes the job out of hand, and reports whether it is, by this or by
// another one before.
func (s *Server) insist(t *taken, problem string, move func(context.Context) error) bool {
	ctx := s.moving
	var undone error
	err := s.refusals.persist(ctx, insistFor, func() error {
		err := move(ctx)
		switch {
		case errors.Is(err, store.ErrNotInHand):
			return nil
		case errors.Is(err, store.ErrUndone):
			undone = err
			return nil
		}
		return err
	})
	if err == nil && undone == nil {
		return true
	}
	s.life.suspect()
	s.repeats.Tell(ctx, s.RedisLog, slog.LevelWarn, problem, nil, slog.String("task", t.ID), slog.Any("error", cmp.Or(err, undone)))
	return false
}

// setAside keeps jobs that no handler may see as dead letters, and ends them. After an error a
// job is found again when the term ends.
func (s *Server) setAside(ctx context.Context, unfit []store.Unfit) {
	for i := range unfit {
		u := &unfit[i]
		letter := &store.Letter{
			ID: u.ID, State: store.Malformed, Reason: string(u.Reason), Error: u.Why,
			Attempts: u.Failures, At: time.Now().UTC(), Queue: u.Queue, Job: u.Payload,
		}
		err := s.Records.SetAside(ctx, letter)
		if err == nil {
			err = s.Records.Drop(ctx, &u.Job)
		}
		if err != nil {
			s.life.suspect()
			s.repeats.Tell(ctx, s.RedisLog, slog.LevelWarn, "a job is not set aside yet", nil, slog.String("task", u.ID), slog.String("queue", u.Queue), slog.Any("error", err))
			if !redisreply.OfItsKeys(err) { // the others would wait for Redis as long
				return
			}
			continue
		}
		s.repeats.Tell(ctx, s.Log, slog.LevelWarn, "job set aside", []slog.Attr{slog.String("reason", letter.Reason)},
			slog.String("task", u.ID), slog.String("queue", u.Queue), slog.String("error", u.Why))
		s.SetAside(letter.State)
	}
}

// panicked returns a job over which there was a panic. What that says may be of the
// notification, unless the Go runtime says it.
func (s *Server) panicked(ctx context.Context, id string, cause any) Back {
	said := fmt.Sprintf("a panic: %T", cause)
	if err, ok := cause.(runtime.Error); ok {
		said = "a panic: " + err.Error()
	}
	s.repeats.Tell(ctx, s.Log, slog.LevelError, "a panic over a job, which comes back: please report it", nil,
		slog.String("task", id), slog.String("said", said), slog.String("stack", string(debug.Stack())))
	return Back{PutOff: store.PutOff{Return: store.Return{Why: store.Panicked, Detail: said, After: store.Again, Failed: true}}}
}

// growStack makes room on the stack of a job's goroutine while there is next to nothing on it. A
// stack starts small and doubles when it is full, and what is on it is then copied, frame by
// frame: done deep in a job, that takes a twentieth of a worker's processor time. A job needs
// between 8 and 16 KiB, and stacks have powers of two.
//
//go:noinline
func growStack() {
	var room [8 << 10]byte
	runtime.KeepAlive(&room)
}
