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

// The loop pulls jobs from the queues, the most urgent queue first, while the budget has room.
// Each job runs in its own goroutine. The loop polls an empty queue again after a wake-up, when
// its next delayed job is due, or after the poll interval.

const (
	// reverseEvery is the number of rounds after which one round starts with the least urgent queue.
	// If critical jobs take all capacity, the other queues get an eighth of it, as they do on a
	// route.
	reverseEvery = 8
	// MaxPull is the maximum number of jobs of a pull. Such a pull occupies Redis for less than 1
	// ms.
	MaxPull = 64
	// maxBulkPull is the maximum number of bulk jobs of a pull, because a critical job waits for the
	// processor behind them. Behind 64 bulk jobs a critical job was sent 10 ms after its acceptance,
	// behind 12 after 3 ms. Pulls of 12 make bulk jobs a fifth slower.
	maxBulkPull = 12
	// capacityRecheck is the interval at which the loop rechecks for capacity, in the budget or on
	// a route. Most providers answer more slowly, so that the pull after a recheck takes several
	// jobs.
	capacityRecheck = 20 * time.Millisecond
	// failureDelay is the pause after a failed pull. A failing Redis gets at most ten pulls a second, and
	// a recovered Redis serves almost at once.
	failureDelay = 100 * time.Millisecond
)

// A claimedJob is a job that this worker has pulled and not yet released.
type claimedJob struct {
	Job
	work Work
}

// run pulls until the server stops. ctx is the context of the jobs.
func (s *Server) run(ctx context.Context) {
	trouble := clock.Trouble{
		Log:    s.RedisLog.With("shard", s.Records.Number),
		Begins: "this worker pulls no jobs from a shard: Redis fails its pulls",
		Ends:   "this worker pulls jobs from the shard again",
	}
	for round := 1; s.ending.Err() == nil; round++ {
		if !s.mayPull() {
			_ = clock.Sleep(s.ending, failureDelay)
			continue
		}
		if s.Budget.full(push.Critical.Queue()) {
			s.Budget.wait(s.ending)
			continue
		}
		found, full, err := s.round(ctx, round)
		trouble.Failing(s.ending, err)
		switch {
		case found:
		case err != nil:
			_ = clock.Sleep(s.ending, failureDelay)
		case full:
			s.Budget.wait(s.ending)
		default:
			s.idle.wait(s.ending, s.parks())
		}
	}
}

// mayPull reports whether this worker may claim jobs: it can record their ends, and its term is
// valid, so that no other worker takes it for dead.
func (s *Server) mayPull() bool { return !s.refusals.recording() && s.liveness.term.Load().Valid() }

// round pulls once from each queue that may have jobs. found reports whether it pulled any job, and full
// whether a queue may have a job for which the budget has no room.
func (s *Server) round(ctx context.Context, n int) (found, full bool, err error) {
	order := slices.Clone(shard.Queues)
	if n%reverseEvery == 0 {
		slices.Reverse(order)
	}
	for _, queue := range order {
		if s.Budget.full(queue) {
			full = full || s.idle.isDue(queue)
			continue
		}
		if !s.idle.claim(queue) && !s.unparks(queue) {
			continue
		}
		some, failed := s.pull(ctx, queue)
		s.refusals.pulled(queue, failed)
		found, err = found || some, cmp.Or(err, failed)
		if redisreply.OfItsKeys(failed) { // the error concerns this queue alone
			s.idle.schedule(queue, failureDelay)
			continue
		}
		if s.failed.Store(failed != nil); failed != nil {
			s.liveness.suspect()
			s.idle.schedule(queue, 0)
			return found, full, err
		}
	}
	return found, full, err
}

// pull claims jobs of the queue and starts them. It reports whether it claimed any.
func (s *Server) pull(ctx context.Context, queue string) (found bool, err error) {
	got, err := s.take(queue)
	if len(got) > 0 {
		s.idle.schedule(queue, 0)
	}
	for i := range got {
		s.begin(ctx, &got[i])
	}
	return len(got) > 0, err
}

// take claims jobs of the queue. If the queue is empty afterwards, take schedules its next poll.
func (s *Server) take(queue string) (jobs []Job, err error) {
	most := MaxPull
	switch {
	case s.failed.Load():
		most = 1 // jobs of a lost reply are idle until their term ends
	case queue == push.Bulk.Queue():
		most = maxBulkPull
	}
	term := s.liveness.hold()
	defer term.release()
	room := s.Budget.reserve(queue, most)
	defer func() { s.Budget.commit(queue, room, len(jobs)) }()
	if room == 0 { // pulls of other shards have reserved everything
		s.idle.schedule(queue, capacityRecheck)
		return nil, nil
	}
	bounds, taken := s.Reserve(queue, room, s.parkedOn(queue))
	defer func() { taken(jobs) }()
	ctx := context.WithoutCancel(s.ending) // a cancelled pull may have claimed jobs that nobody runs
	got, err := s.Records.Pull(ctx, store.Pull{Queue: queue, Most: room, Term: term.id, Visit: term.visit(), Bounds: bounds})
	if err != nil {
		return nil, err
	}
	s.setAside(ctx, got.Unfit)
	if got.Empty && got.Due >= 0 {
		s.idle.dueIn(queue, got.Due)
	} else if !got.Empty {
		s.idle.schedule(queue, 0)
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

// parkedOn returns the names under which jobs of the queue were parked at the last pull.
func (s *Server) parkedOn(queue string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parked[queue]
}

// parks reports whether any queue had parked jobs at its last pull.
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

// unparks reports whether one of the queue's parked routes has capacity again.
func (s *Server) unparks(queue string) bool {
	parked := s.parkedOn(queue)
	return len(parked) > 0 && s.CanUnpark(queue, parked)
}

// begin starts a job. It returns after the handler's Take, so that the handler takes the jobs in order.
func (s *Server) begin(ctx context.Context, job *Job) {
	t := &claimedJob{Job: *job}
	s.mu.Lock()
	s.begun++
	s.claimed[t] = s.begun
	s.mu.Unlock()
	t.work = s.workOf(t)
	s.working.Go(func() {
		growStack()
		s.work(ctx, t)
	})
}

// workOf calls Handler.Take. A panic in Take fails only this attempt of this job.
func (s *Server) workOf(t *claimedJob) (work Work) {
	defer func() {
		if cause := recover(); cause != nil {
			back := s.panicked(context.Background(), t.ID, cause)
			work = func(context.Context) Result { return back }
		}
	}()
	return s.handler.Take(t.Job)
}

// work runs a job, applies its result and releases the job.
func (s *Server) work(ctx context.Context, t *claimedJob) {
	defer s.release(t)
	switch to := s.handle(ctx, t).(type) {
	case Ended:
		s.finish(t, to.Outcomes)
	case Postponed:
		if !t.Term.Lost(ctx) {
			s.putOff(t, &to)
		} else if to.Unnoted != nil {
			to.Unnoted()
		}
	case Malformed:
		if !t.Term.Lost(ctx) {
			s.setAside(ctx, []store.Unfit{{Job: t.Job.Job, Reason: to.Reason, Why: to.Why}})
		}
	}
}

func (s *Server) handle(ctx context.Context, t *claimedJob) (to Result) {
	defer func() {
		if cause := recover(); cause != nil {
			to = s.panicked(ctx, t.ID, cause)
		}
	}()
	return t.work(ctx)
}

// release removes the job from the claimed jobs and frees its room in the budget.
func (s *Server) release(t *claimedJob) {
	t.Arrived() // in case the handler has not called it
	s.mu.Lock()
	delete(s.claimed, t)
	s.mu.Unlock()
	t.Term.release()
	s.Budget.release(t.Queue)
}

// putOff returns the job to its queue to run later. If Redis cannot update the record, putOff
// returns the job without the update.
func (s *Server) putOff(t *claimedJob, back *Postponed) {
	unnoted := back.Attempt != nil && back.Unnoted != nil
	if s.retryRelease(t, "a job could not be returned to its queue; it returns when this worker's term ends", func(ctx context.Context) error {
		err := s.Records.PutOff(ctx, &t.Job.Job, &back.PutOff)
		if errors.Is(err, store.ErrNotRecorded) {
			s.repeats.Write(ctx, s.RedisLog, slog.LevelWarn, "the record of a postponed notification could not be updated", nil, slog.String("task", t.ID), slog.Any("error", err))
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

// unrecorded returns p without the update of the record.
func unrecorded(p *store.PutOff, cause error) store.PutOff {
	to := store.PutOff{Return: p.Return}
	if p.Attempt != nil {
		to.Why, to.Detail, to.Failed = store.Unrecorded, cause.Error(), true
	}
	return to
}

// A batch ends jobs that finish at about the same time, by one command.
type batch struct{ *store.Ends }

// finish ends the job. If this attempt, or an earlier unrecorded attempt, delivered the notification, the
// same step settles the notification.
func (s *Server) finish(t *claimedJob, delivered []store.TargetOutcome) {
	if delivered != nil {
		s.settles.Add(t.ID, delivered)
	}
	outcomes, settles := s.settles.Get(t.ID)
	if s.retryRelease(t, "a finished job could not be removed from its queue; it returns when this worker's term ends", func(ctx context.Context) error {
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

// releaseTimeout bounds the retries of a move that releases a claimed job. It is longer than a
// failover, which takes 15 to 30 s. The move does nothing once this worker no longer has the
// claim.
const releaseTimeout = time.Minute

// retryRelease retries a move that releases the claimed job. It reports whether the job is
// released, by this call or an earlier one.
func (s *Server) retryRelease(t *claimedJob, problem string, move func(context.Context) error) bool {
	ctx := s.moving
	var undone error
	err := s.refusals.persist(ctx, releaseTimeout, func() error {
		err := move(ctx)
		switch {
		case errors.Is(err, store.ErrNotClaimed):
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
	s.liveness.suspect()
	s.repeats.Write(ctx, s.RedisLog, slog.LevelWarn, problem, nil, slog.String("task", t.ID), slog.Any("error", cmp.Or(err, undone)))
	return false
}

// setAside stores malformed jobs as dead letters and ends them. After an error, other workers reap the
// job when this worker's term is over.
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
			s.liveness.suspect()
			s.repeats.Write(ctx, s.RedisLog, slog.LevelWarn, "a malformed job could not be stored as a dead letter yet", nil, slog.String("task", u.ID), slog.String("queue", u.Queue), slog.Any("error", err))
			if !redisreply.OfItsKeys(err) { // the next job would wait for the same time-out
				return
			}
			continue
		}
		s.repeats.Write(ctx, s.Log, slog.LevelWarn, "a malformed job is kept as a dead letter", []slog.Attr{slog.String("reason", letter.Reason)},
			slog.String("task", u.ID), slog.String("queue", u.Queue), slog.String("error", u.Why))
		s.SetAside(letter.State)
	}
}

// panicked returns the result of a job that panicked. It omits the text of the panic unless the Go
// runtime wrote it, as other texts may quote the notification.
func (s *Server) panicked(ctx context.Context, id string, cause any) Postponed {
	said := fmt.Sprintf("a panic: %T", cause)
	if err, ok := cause.(runtime.Error); ok {
		said = "a panic: " + err.Error()
	}
	s.repeats.Write(ctx, s.Log, slog.LevelError, "a panic while handling a job, which will be retried: please report it", nil,
		slog.String("task", id), slog.String("said", said), slog.String("stack", string(debug.Stack())))
	return Postponed{PutOff: store.PutOff{Return: store.Return{Why: store.Panicked, Detail: said, After: store.RetryDelay, Failed: true}}}
}

// growStack grows a goroutine's stack while the stack is almost empty. A stack starts small,
// doubles when it is full, and is then copied frame by frame. Deep in a job, these copies cost a
// twentieth of a worker's processor time. A job needs 8 to 16 KiB, and stack sizes are powers of
// two.
//
//go:noinline
func growStack() {
	var room [8 << 10]byte
	runtime.KeepAlive(&room)
}
