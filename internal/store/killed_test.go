package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// A cut drops a command, or its reply.
type cut struct {
	left atomic.Int32 // the number of the command, counted down; 0 for none
	done bool         // Redis runs the command, and the reply is dropped
}

func (c *cut) run(_ context.Context, cmds []redis.Cmder, next func() error) error {
	if c.left.Load() == 0 || c.left.Add(-1) > 0 {
		return next()
	}
	if c.done {
		_ = next()
	}
	return redistest.Fail(cmds, io.ErrUnexpectedEOF)
}

// A killedRig has one job in each place, with the place's name as its ID: "pending", "scheduled",
// "retry", "parked" and "active". The field job holds the claim of "active". "unfit" is a job
// that cannot be read.
type killedRig struct {
	boardRig
	job   *store.Job
	unfit *store.Unfit
	terms int
}

func newKilledRig(t *testing.T, client redis.UniversalClient) *killedRig {
	r := &killedRig{boardRig: newBoardRig(t, t, client)}
	r.sign("judge", false)
	for _, id := range []string{"unfit", "active", "retry"} {
		r.must(r.accept(id, time.Time{}))
	}
	r.must(client.HSet(r.ctx, r.key("t:unfit"), "msg", garbled).Err())
	got := r.pull()
	r.unfit, r.job = &got.Unfit[0], &got.Jobs[0]
	r.must(r.at.PutOff(r.ctx, &got.Jobs[1], &store.PutOff{Return: store.Return{Why: store.Deferred, After: time.Hour}}))
	r.must(r.accept("parked", time.Time{}))
	r.pull(store.Bound{Name: "a/fcm"})
	r.must(r.accept("pending", time.Time{}))
	r.must(r.accept("scheduled", time.Now().Add(time.Hour)))
	return r
}

func (r *killedRig) accept(id string, notBefore time.Time) error {
	r.ids = append(r.ids, id)
	a := r.at.NewAcceptance(id, boardQueue, r.payload(id, "a", notBefore), nil, store.Facts{App: "a", User: "u", NotBefore: notBefore})
	return r.records.NewAcceptor().Enqueue(r.ctx, a)
}

func (r *killedRig) sign(term string, judges bool) error {
	_, _, err := r.at.Heartbeat(r.ctx, store.Heartbeat{Term: term, First: true, Dead: time.Hour, Judges: judges})
	return err
}

// pull pulls in a new term.
func (r *killedRig) pull(bounds ...store.Bound) store.Pulled {
	r.must(r.sign(r.term(1), false))
	got, err := r.pulls(bounds...)
	r.must(err)
	return got
}

func (r *killedRig) pulls(bounds ...store.Bound) (store.Pulled, error) {
	return r.at.Pull(r.ctx, store.Pull{Queue: boardQueue, Most: 10, Term: r.term(0), Visit: 1, Bounds: bounds})
}

func (r *killedRig) term(more int) string {
	r.terms += more
	return fmt.Sprint("T", r.terms)
}

func (r *killedRig) silenceAll() (err error) {
	for n := range r.terms {
		err = errors.Join(err, r.silence(fmt.Sprint("T", n+1)))
	}
	return err
}

// reap gives back the jobs of dead terms.
func (r *killedRig) reap() error {
	if err := r.sign("judge", true); err != nil {
		return err
	}
	_, err := r.at.Reap(r.ctx)
	return err
}

func (r *killedRig) setAside(u *store.Unfit) error {
	if err := r.at.SetAside(r.ctx, &store.Letter{ID: u.ID, State: store.Malformed, Queue: boardQueue, Job: u.Payload}); err != nil {
		return err
	}
	return r.at.Drop(r.ctx, &u.Job)
}

// exhaust ends the notification with a dead letter, and then the job.
func (r *killedRig) exhaust() error {
	letter := &store.Letter{ID: r.job.ID, State: store.Exhausted, Queue: boardQueue, Job: r.job.Payload}
	if _, err := r.at.Settle(r.ctx, r.job.ID, &store.End{State: store.Exhausted, App: "a", Letter: letter}); err != nil {
		return err
	}
	return r.ends(r.job, func(e *store.Ends) { e.Add(r.job) })
}

// outcome describes the place of each job, the state of its notification and the counts.
func (r *killedRig) outcome() string {
	b := r.read()
	said := fmt.Sprintf("%+v", b.counts)
	for _, id := range r.ids {
		if fault := b.fault(id); fault != "" {
			r.t.Errorf("%s %s", id, fault)
		}
		said += fmt.Sprintf("\n%s in %q, %s, failed %q", id, b.place(id), b.records[id]["state"], b.tasks[id]["failed"])
	}
	return said
}

// killedMoves return a repeatable move of the rig, which takes several commands. moves.twice repeats the
// moves of one command.
var killedMoves = map[string]func(r *killedRig) (move func() error){
	"pull and deliver": func(r *killedRig) func() error {
		return func() error { // each time in a new term, after the death of the earlier terms
			err := errors.Join(r.silenceAll(), r.reap(), r.sign(r.term(1), false))
			if err != nil {
				return err
			}
			got, err := r.pulls()
			for i := range got.Jobs {
				err = errors.Join(err, r.ends(&got.Jobs[i], func(e *store.Ends) { e.Settle(&got.Jobs[i], nil) }))
			}
			for i := range got.Unfit {
				err = errors.Join(err, r.setAside(&got.Unfit[i]))
			}
			return err
		}
	},
	"exhaust":   func(r *killedRig) func() error { return r.exhaust },
	"set aside": func(r *killedRig) func() error { return func() error { return r.setAside(r.unfit) } },
	"take": func(r *killedRig) func() error {
		var refs []store.Ref
		for _, id := range r.ids {
			refs = append(refs, store.Ref{ID: id})
		}
		return func() error {
			_, errs := r.at.TakeAll(r.ctx, refs, store.TakeOptions{State: store.Cancelled, Read: push.Contents})
			return errors.Join(errs...)
		}
	},
	"withdraw": func(r *killedRig) func() error {
		return func() error {
			_, err := r.at.Withdraw(r.ctx, "a", "u", "", push.Group{Category: "c"}.Has, store.TakeOptions{State: store.Cancelled, Read: push.Contents})
			return err
		}
	},
	"reap": func(r *killedRig) func() error {
		r.must(r.silenceAll())
		return r.reap
	},
}

// A caller is killed before each command of its move, or between the command and the reply. The
// repeated move has the same result as an uninterrupted move.
func TestKilledCallersCanRepeatMoves(t *testing.T) {
	t.Parallel()
	for name, prepare := range killedMoves {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := new(cut)
			client := redistest.One(t)
			redistest.Hook(client, redistest.Around(c.run))
			run := func(command int32) (outcome string, interrupted bool) {
				r := newKilledRig(t, client)
				move := prepare(r)
				c.left.Store(command)
				err := move()
				if interrupted = command > 0 && c.left.Load() == 0; interrupted {
					err = move()
				}
				c.left.Store(0)
				for _, allowed := range []error{store.ErrNotClaimed, store.ErrEnded, store.ErrInFlight} {
					if errors.Is(err, allowed) {
						err = nil
					}
				}
				if err != nil {
					t.Errorf("command %d, done %t: %v", command, c.done, err)
				}
				return r.outcome(), interrupted
			}
			want, _ := run(0)
			for _, c.done = range []bool{false, true} {
				interrupted := true
				for command := int32(1); interrupted; command++ {
					var got string
					if got, interrupted = run(command); got != want {
						t.Errorf("killed at command %d, done %t: %s\nwant %s", command, c.done, got, want)
					}
				}
			}
		})
	}
}
