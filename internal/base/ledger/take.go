package ledger

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

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

// What is taken from the queue is noted before, so that whoever finds the note
// can do the rest: whoever takes it may crash at any point, and a producer knows
// no limits. All workers look for the notes that nobody works at:
//
//	PREFIX:{taken}:notes    hash: a takingNote by ID, in JSON
//	PREFIX:{taken}:due      sorted set of the IDs, by when a worker is to look, in
//	                        Unix ms of Redis's clock

// A takingNote is what has to be known of a notification whose job is gone.
type takingNote struct {
	State    State     `json:"state"` // as which it is to end
	Accepted time.Time `json:"accepted_at"`
	Queue    string    `json:"queue"`
	App      string    `json:"app"`
	User     string    `json:"user"`
	Category string    `json:"category,omitempty"`
	// Targets are the outcomes of targets that nothing was sent to.
	Targets []TargetOutcome `json:"targets"`
	Retried int             `json:"retried"` // the failures that asynq has counted
}

// Taken is a notification that was taken from the queue, and has ended. What it
// holds of its user's limits is to be given back: then a worker has it Freed. Until
// then one comes to do it.
type Taken struct {
	ID, App, User, Category string // App and User are empty when nobody knows them
	// State is the one in which it has ended.
	State State
	// Used says that a provider has taken it, or may have: what it was admitted
	// with stays.
	Used bool
	// First says that it has ended by this call.
	First bool

	note string
}

//go:embed take.lua
var takeSource string

var takeScript = redis.NewScript(takeSource)

// takeGrace is for how long a worker leaves a note to whoever works at it.
const takeGrace = 2 * time.Second

func (r *Records) note(ctx context.Context, op, id, note string) error {
	_, err := r.onNotes(ctx, op, id, note)
	return err
}

func (r *Records) onNotes(ctx context.Context, op, id, note string) ([]any, error) {
	reply, err := takeScript.Run(ctx, r.client, r.takenKeys(), op, id, note, takeGrace.Milliseconds()).Slice()
	if err != nil {
		return nil, fmt.Errorf("note of a notification that is taken from the queue: %w", err)
	}
	return reply, nil
}

func (r *Records) takenKeys() []string {
	return []string{r.prefix + ":{taken}:notes", r.prefix + ":{taken}:due"}
}

// removeScript deletes asynq's job as long as it is the one that was looked at,
// and in nobody's hands. Of those that are due the newest is found at once: whoever
// takes many begins with that.
//
// KEYS  the task; asynq's pending, scheduled, retry, archived
// ARGV  ID, message
var removeScript = redis.NewScript(`
local known = redis.pcall('HMGET', KEYS[1], 'state', 'msg')
if known.err or known[2] ~= ARGV[2] then return 0 end
if known[1] == 'pending' then redis.call('LREM', KEYS[2], 1, ARGV[1])
elseif known[1] == 'scheduled' then redis.call('ZREM', KEYS[3], ARGV[1])
elseif known[1] == 'retry' then redis.call('ZREM', KEYS[4], ARGV[1])
elseif known[1] == 'archived' then redis.call('ZREM', KEYS[5], ARGV[1])
else return 0 end
return redis.call('DEL', KEYS[1])
`)

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
var lookScript = redis.NewScript(`
local length = redis.pcall('HSTRLEN', KEYS[1], 'msg')
if type(length) == 'table' then return {'', ''} end
local state = redis.call('HGET', KEYS[1], 'state')
if not state then return {} end
if length > tonumber(ARGV[1]) then return {state, ''} end
return {state, redis.call('HGET', KEYS[1], 'msg') or ''}
`)

// JobState answers where asynq has the notification's job: pending, active, scheduled or
// retry; empty when it has none.
func (r *Records) JobState(ctx context.Context, queue, id string) (string, error) {
	job, err := r.queued(ctx, queue, id)
	if err != nil || job == nil {
		return "", err
	}
	return job.state, nil
}

// queued answers the job with that ID, nil when there is none.
func (r *Records) queued(ctx context.Context, queue, id string) (*queuedJob, error) {
	known, err := lookScript.Run(ctx, r.client, []string{asynqwire.QueueKey(queue, "t:"+id)}, asynqwire.MaxEnvelopeSize).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("look for the job: %w", err)
	}
	if len(known) == 0 {
		return nil, nil
	}
	envelope, _ := asynqwire.ReadEnvelope(known[1])
	return &queuedJob{envelope, known[0], known[1]}, nil
}

// remove deletes the job, unless it has changed since.
func (r *Records) remove(ctx context.Context, queue, id string, job *queuedJob) (bool, error) {
	keys := []string{asynqwire.QueueKey(queue, "t:"+id)}
	for _, list := range []string{"pending", "scheduled", "retry", "archived"} {
		keys = append(keys, asynqwire.QueueKey(queue, list))
	}
	n, err := removeScript.Run(ctx, r.client, keys, id, job.message).Int()
	if err != nil {
		return false, fmt.Errorf("take the job from the queue: %w", err)
	}
	return n == 1, nil
}

// Contents are what has to be known of a notification when its job is gone.
type Contents struct {
	App, User, Category string
	// Targets are the outcomes of targets that nothing was sent to.
	Targets []TargetOutcome
}

// Take takes a notification that waits from the queue, and ends it in that state,
// or as delivered when one of its targets was. read reads its job's payload. It answers ErrUnknownID, ErrEnded
// or ErrUnderWay when there is nothing to take, or not now. After another error it
// may be taken or not; calling it again is safe.
func (r *Records) Take(ctx context.Context, id string, state State, read func(payload []byte) (Contents, error)) (*Taken, error) {
	record, err := r.Lookup(ctx, id)
	if err != nil {
		return nil, err
	}
	if record.State.Ended() {
		return nil, &EndedError{record.State}
	}
	for range takeTries {
		job, err := r.queued(ctx, record.Queue, id)
		switch {
		case err != nil:
			return nil, err
		case job == nil:
			return r.takeUp(ctx, id, record, state)
		case job.active():
			return nil, ErrUnderWay
		}
		c, err := read([]byte(job.Payload))
		if err != nil {
			return nil, fmt.Errorf("the job cannot be read, a worker will set it aside: %w", err)
		}
		note := takingNote{state, record.Accepted, record.Queue, c.App, c.User, c.Category, c.Targets, job.Retried}
		text, err := json.Marshal(note)
		if err != nil {
			return nil, err
		}
		if err := r.note(ctx, "note", id, string(text)); err != nil {
			return nil, err
		}
		if removed, err := r.remove(ctx, record.Queue, id, job); err != nil {
			return nil, err
		} else if removed {
			return firstOnly(r.endTaken(ctx, id, note, string(text)))
		}
		if err := r.note(ctx, "drop", id, string(text)); err != nil {
			return nil, err
		}
	}
	return nil, ErrUnderWay
}

// takeTries is how often a job is looked at that changes meanwhile.
const takeTries = 5

// takeUp goes on with what an earlier Take has left of a notification that waits
// and has no job.
func (r *Records) takeUp(ctx context.Context, id string, record *Record, state State) (*Taken, error) {
	text, err := r.client.HGet(ctx, r.takenKeys()[0], id).Result()
	if errors.Is(err, redis.Nil) {
		return r.close(ctx, id, record, state)
	}
	if err != nil {
		return nil, fmt.Errorf("note of a notification that is taken from the queue: %w", err)
	}
	var note takingNote
	if err := json.Unmarshal([]byte(text), &note); err != nil {
		return nil, fmt.Errorf("note of a notification that is taken from the queue: %w", err)
	}
	return firstOnly(r.endTaken(ctx, id, note, text))
}

// firstOnly has whoever comes second find it ended.
func firstOnly(t *Taken, err error) (*Taken, error) {
	if err == nil && !t.First {
		return nil, &EndedError{t.State}
	}
	return t, err
}

// close ends a notification that waits and has no job, as none should. Whether
// that is so shows in a second look: a worker may just be done with it. Nobody
// knows what was sent.
func (r *Records) close(ctx context.Context, id string, record *Record, state State) (*Taken, error) {
	if !record.Confirmed {
		return nil, ErrUnderWay // its producer is about to enqueue it
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Second):
	}
	if job, err := r.queued(ctx, record.Queue, id); err != nil {
		return nil, err
	} else if job != nil {
		return nil, ErrUnderWay
	}
	record, err := r.Lookup(ctx, id)
	if err != nil {
		return nil, err
	}
	t := &Taken{ID: id, App: record.App, User: record.User, Category: record.Category, State: record.State, Used: true}
	if !record.State.Ended() {
		end := endOf(Doubt(record.Outcomes), state)
		end.Error = "its job was gone"
		if _, err := r.settleTaken(ctx, t, end); err != nil {
			return nil, err
		}
	}
	return firstOnly(t, nil)
}

// endTaken ends the notification whose job is gone. What its record says now is
// final.
func (r *Records) endTaken(ctx context.Context, id string, note takingNote, text string) (*Taken, error) {
	record, err := r.Lookup(ctx, id)
	if err != nil {
		return nil, err
	}
	t := &Taken{ID: id, App: note.App, User: note.User, Category: note.Category, State: record.State, note: text}
	outcomes := record.Outcomes
	if !record.State.Ended() {
		if outcomes == nil {
			outcomes = note.Targets
		}
		if note.Retried > record.Attempts {
			outcomes = Doubt(outcomes)
		}
		if outcomes, err = r.settleTaken(ctx, t, endOf(outcomes, note.State)); err != nil {
			return nil, err
		}
	}
	for i := range outcomes {
		t.Used = t.Used || outcomes[i].Taken()
	}
	return t, nil
}

// settleTaken ends what was taken, and answers the outcomes with which it has
// ended: they, and the state, may be somebody else's who was faster.
func (r *Records) settleTaken(ctx context.Context, t *Taken, end End) ([]TargetOutcome, error) {
	first, err := r.Settle(ctx, t.ID, &end)
	if err != nil {
		return nil, err
	}
	t.First, t.State = first, end.State
	if first {
		return end.Outcomes, nil
	}
	record, err := r.Lookup(ctx, t.ID)
	if err != nil {
		return nil, err
	}
	t.State = record.State
	return record.Outcomes, nil
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
func (r *Records) Freed(ctx context.Context, t *Taken) (first bool, err error) {
	if t.note == "" {
		return t.First, nil
	}
	reply, err := r.onNotes(ctx, "drop", t.ID, t.note)
	return len(reply) > 0, err
}

// Leave leaves the notification to the workers, which look at it at once.
func (r *Records) Leave(ctx context.Context, t *Taken) error {
	if t.note == "" {
		return nil
	}
	return r.note(ctx, "leave", t.ID, t.note)
}

// Abandoned answers notifications that somebody has taken from the queue and not
// freed, about as many as limit says, and leaves each to the caller for a while.
// Where it was broken off they are ended first. more says that there may be others.
func (r *Records) Abandoned(ctx context.Context, limit int) (taken []*Taken, more bool, err error) {
	reply, err := takeScript.Run(ctx, r.client, r.takenKeys(), "claim", "", "", takeGrace.Milliseconds(), limit).StringSlice()
	if err != nil {
		return nil, false, fmt.Errorf("notes of notifications that are taken from the queue: %w", err)
	}
	var errs []error
	for i := 0; i+1 < len(reply); i += 2 {
		t, err := r.takeOver(ctx, reply[i], reply[i+1])
		if t != nil {
			taken = append(taken, t)
		}
		errs = append(errs, err)
	}
	return taken, len(reply) >= 2*limit, errors.Join(errs...)
}

// takeOver ends what a note tells of. It answers nil where nothing is left to do.
func (r *Records) takeOver(ctx context.Context, id, text string) (*Taken, error) {
	var note takingNote
	if err := json.Unmarshal([]byte(text), &note); err != nil {
		return nil, errors.Join(err, r.note(ctx, "drop", id, text))
	}
	record, err := r.Lookup(ctx, id)
	if err != nil && !errors.Is(err, ErrUnknownID) {
		return nil, err
	}
	if err != nil || !record.Accepted.Equal(note.Accepted) { // it was forgotten since
		return nil, r.note(ctx, "drop", id, text)
	}
	job, err := r.queued(ctx, note.Queue, id)
	if err != nil {
		return nil, err
	}
	if job != nil && !record.State.Ended() {
		removed := false
		if !job.active() && job.Retried == note.Retried {
			if removed, err = r.remove(ctx, note.Queue, id, job); err != nil {
				return nil, err
			}
		}
		if !removed { // a worker was faster
			return nil, r.note(ctx, "drop", id, text)
		}
	}
	return r.endTaken(ctx, id, note, text)
}
