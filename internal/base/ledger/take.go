package ledger

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/acknowledged"
	"github.com/pushpace/pushpace/internal/base/asynqwire"
)

// ErrUnderWay means that a worker has the notification in its hands right now.
var ErrUnderWay = errors.New("the notification is being sent right now")

// ErrEnded means that the notification has ended already.
var ErrEnded = errors.New("the notification has ended")

// An EndedError is ErrEnded, and says how.
type EndedError struct{ State State }

// Error implements error.
func (e *EndedError) Error() string { return ErrEnded.Error() + ": " + string(e.State) }

// Unwrap returns ErrEnded.
func (e *EndedError) Unwrap() error { return ErrEnded }

// Of what is taken from the queue a note is left, until what it holds of its user's limits
// is given back: whoever takes it may crash, and a producer knows no limits.
//
//	taken:notes    hash: a Taken by ID, in JSON
//	taken:due      sorted set of the IDs, by when a worker is to look, in Unix ms of
//	               Redis's clock

// Taken is a notification that was taken from the queue, and has ended. What it
// holds of its user's limits is to be given back: then a worker has it Freed. Until
// then one comes to do it.
type Taken struct {
	ID       string `json:"-"`
	App      string `json:"app"` // App and User are empty when nobody knows them
	User     string `json:"user"`
	Category string `json:"category,omitempty"`
	// State is the one in which it has ended.
	State State `json:"state"`
	// Used says that a provider has taken it, or may have: what it was admitted
	// with stays.
	Used bool `json:"used,omitempty"`
	// By is of the call that has taken it.
	By string `json:"by"`

	note string // "" where there is none
	at   *Shard
}

//go:embed take.lua
var takeSource string

var takeScript = redis.NewScript(settleSource + takeSource)

//go:embed taken.lua
var takenSource string

var takenScript = redis.NewScript(takenSource)

// takeGrace is for how long a worker leaves a note to whoever works at it.
const takeGrace = 2 * time.Second

func (r *Shard) takenKeys() []string {
	return []string{r.Key("taken:notes"), r.Key("taken:due")}
}

// A queuedJob is asynq's.
type queuedJob struct {
	asynqwire.Envelope
	state, message string
}

// active reports whether a worker has it in hand.
func (j *queuedJob) active() bool { return j.state == "active" }

// lookScript answers a job's state and message, nothing where there is none. The
// message is empty where it is too long, and both where the key is of another type.
//
// KEYS  the task
// ARGV  how long a message may be
var lookScript = acknowledged.Reader(redis.NewScript(`
local length = redis.pcall('HSTRLEN', KEYS[1], 'msg')
if type(length) == 'table' then return {'', ''} end
local state = redis.call('HGET', KEYS[1], 'state')
if not state then return {} end
if length > tonumber(ARGV[1]) then return {state, ''} end
return {state, redis.call('HGET', KEYS[1], 'msg') or ''}
`))

// JobState answers where asynq has the notification's job: pending, active, scheduled or
// retry; empty when it has none.
func (r *Shard) JobState(ctx context.Context, queue, id string) (string, error) {
	job, err := r.queued(ctx, queue, id)
	if err != nil || job == nil {
		return "", err
	}
	return job.state, nil
}

// queued answers the job with that ID, nil when there is none.
func (r *Shard) queued(ctx context.Context, queue, id string) (*queuedJob, error) {
	known, err := lookScript.Run(ctx, r.client, []string{r.QueueKey(queue, "t:"+id)}, asynqwire.MaxEnvelopeSize).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("look for the job: %w", err)
	}
	if len(known) == 0 {
		return nil, nil
	}
	envelope, _ := asynqwire.ReadEnvelope(known[1])
	return &queuedJob{envelope, known[0], known[1]}, nil
}

// Contents are what has to be known of a notification when its job is gone.
type Contents struct {
	App, User, Category string
	// Targets are the outcomes of targets that nothing was sent to.
	Targets []TargetOutcome
}

// takeTries is how often a job is looked at that changes meanwhile.
const takeTries = 5

// Take takes the notification, which waits, from the queue, and ends it in that state,
// or as delivered when one of its targets was. read reads its job's payload. It answers
// ErrUnknownID, ErrEnded or ErrUnderWay when there is nothing to take, or not now. After
// another error it may be taken or not; calling it again is safe.
//
// One whose push is to tell of others too is not taken: that is a *CarriesError.
func (r *Shard) Take(ctx context.Context, ref Ref, state State, read func(payload []byte) (Contents, error)) (*Taken, error) {
	return r.takeWith(ctx, ref, state, read, false)
}

// TakeWithOthers is Take also of one whose push is to tell of others.
func (r *Shard) TakeWithOthers(ctx context.Context, ref Ref, state State, read func(payload []byte) (Contents, error)) (*Taken, error) {
	return r.takeWith(ctx, ref, state, read, true)
}

func (r *Shard) takeWith(ctx context.Context, ref Ref, state State, read func(payload []byte) (Contents, error), others bool) (*Taken, error) {
	id, jobless := ref.ID, false
	for range takeTries {
		record, err := r.Lookup(ctx, id)
		if err != nil {
			return nil, err
		}
		if !ref.names(record.App, record.User) {
			return nil, ErrUnknownID
		}
		if record.State.Ended() {
			return nil, &EndedError{record.State}
		}
		job, err := r.queued(ctx, record.Queue, id)
		if err != nil {
			return nil, err
		}
		if job == nil || !job.active() {
			if err := r.closeDigest(ctx, id, record, others); err != nil {
				return nil, err
			}
		}
		var t *Taken
		switch {
		case job == nil && !jobless: // it may have ended in between
			jobless = true
			continue
		case job == nil:
			t, err = r.close(ctx, id, record, state)
		case job.active():
			return nil, ErrUnderWay
		default:
			var c Contents
			if c, err = read([]byte(job.Payload)); err != nil {
				return nil, fmt.Errorf("the job cannot be read, a worker will set it aside: %w", err)
			}
			t, err = r.take(ctx, id, record, job, c, state)
		}
		if t != nil && record.Told > 0 {
			r.Forget(ctx, id)
		}
		if t != nil || err != nil {
			return t, err
		}
	}
	return nil, ErrUnderWay
}

// close ends a notification that waits and has no job, as none should: Redis has lost it.
// Nobody knows what was sent. It returns nil for one that has ended meanwhile.
func (r *Shard) close(ctx context.Context, id string, record *Record, state State) (*Taken, error) {
	end := endOf(Doubt(record.Outcomes), state)
	end.Error, end.App = "its job was gone", record.App
	if first, err := r.Settle(ctx, id, &end); err != nil || !first {
		return nil, err
	}
	return &Taken{at: r, ID: id, App: record.App, User: record.User, Category: record.Category, State: end.State, Used: true}, nil
}

// take takes the job, and ends its notification. It returns nil where the job has changed
// since it was looked at.
func (r *Shard) take(ctx context.Context, id string, record *Record, job *queuedJob, c Contents, state State) (*Taken, error) {
	outcomes := record.Outcomes
	if outcomes == nil {
		outcomes = c.Targets
	}
	if job.Retried > record.Attempts {
		outcomes = Doubt(outcomes)
	}
	end := endOf(outcomes, state)
	end.App = c.App
	t := &Taken{at: r, ID: id, App: c.App, User: c.User, Category: c.Category, State: end.State, By: rand.Text()}
	for i := range outcomes {
		t.Used = t.Used || outcomes[i].Taken()
	}
	note, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	t.note = string(note)
	ends, err := r.end(&end)
	if err != nil {
		return nil, err
	}
	keys := append(r.takenKeys(), r.Key("id:"+id), r.Key("counts"), r.Key("letters"), r.QueueKey(record.Queue, "t:"+id))
	for _, list := range []string{"pending", "scheduled", "retry", "archived"} {
		keys = append(keys, r.QueueKey(record.Queue, list))
	}
	if r.tells() {
		keys = append(keys, r.Key(outcomesName))
	}
	args := append([]any{id, time.Now().UnixMilli(), r.retention.Milliseconds(), takeGrace.Milliseconds(), job.message, record.outcomes, t.note}, ends...)
	if taken, err := takeScript.Run(ctx, r.client, keys, args...).Int(); err != nil {
		return nil, fmt.Errorf("take the job from the queue: %w", err)
	} else if taken == 0 {
		return nil, nil
	}
	return t, nil
}

// endOf is the end of a notification that is not to be sent any more.
func endOf(outcomes []TargetOutcome, state State) End {
	end := End{State: state, Outcomes: outcomes}
	for _, o := range outcomes {
		switch o.Kind {
		case "delivered":
			end.State = Delivered
		case "dead_token":
			end.DeadTokens++
		}
	}
	return end
}

// Freed tells that what the notification held is given back. It answers whether
// nobody has told so before.
func (t *Taken) Freed(ctx context.Context) (first bool, err error) {
	if t.note == "" {
		return true, nil
	}
	reply, err := t.at.onNotes(ctx, "drop", t.ID, t.note, 0)
	return len(reply) > 0, err
}

// Leave leaves the notification to the workers, which look at it at once.
func (t *Taken) Leave(ctx context.Context) error {
	if t.note == "" {
		return nil
	}
	_, err := t.at.onNotes(ctx, "leave", t.ID, t.note, 0)
	return err
}

// Abandoned answers notifications that somebody has taken from the queue and not
// freed, at most so many, and leaves each to the caller for a while. more says that there
// may be others.
func (r *Shard) Abandoned(ctx context.Context, limit int) (taken []*Taken, more bool, err error) {
	reply, err := r.onNotes(ctx, "claim", "", "", limit)
	var errs []error
	for i := 0; i+1 < len(reply); i += 2 {
		t := &Taken{at: r, ID: reply[i], note: reply[i+1]}
		if err := json.Unmarshal([]byte(t.note), t); err != nil {
			_, dropped := t.Freed(ctx)
			errs = append(errs, fmt.Errorf("note of a notification that was taken from the queue: %w", err), dropped)
			continue
		}
		taken = append(taken, t)
	}
	return taken, len(reply) >= 2*limit, errors.Join(append(errs, err)...)
}

func (r *Shard) onNotes(ctx context.Context, op, id, note string, limit int) ([]string, error) {
	reply, err := takenScript.Run(ctx, r.client, r.takenKeys(), op, id, note, takeGrace.Milliseconds(), limit, r.Key("id:")).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("notes of notifications that were taken from the queue: %w", err)
	}
	return reply, nil
}
