package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrInFlight means that a worker has claimed the notification's job.
var ErrInFlight = errors.New("the notification is being sent right now")

// ErrEnded means that the notification has ended already.
var ErrEnded = errors.New("the notification has ended")

// An EndedError is ErrEnded with the end state.
type EndedError struct{ State State }

// Error implements error.
func (e *EndedError) Error() string { return ErrEnded.Error() + ": " + string(e.State) }

// Unwrap returns ErrEnded.
func (e *EndedError) Unwrap() error { return ErrEnded }

// A taken notification still holds its slot or admission in its user's limits. The process that
// took it must give this back. Until then a note remains, as the process may crash, and a producer
// does not know the limits.
//
//	taken:notes    hash: a Taken by ID, in JSON
//	taken:due      sorted set of the IDs, by when a worker checks them, in Unix ms of
//	               Redis's clock

// Taken is a notification that was taken from the queue and has ended. Once its slot is given back,
// DeleteNotes deletes its note; until then ClaimNotes returns it to workers.
type Taken struct {
	ID       string `json:"-"`
	App      string `json:"app"` // "" for App and User if they are unknown
	User     string `json:"user"`
	Category string `json:"category,omitempty"`
	// State is its end state.
	State State `json:"state"`
	// Used is true if a provider has taken its push, or may have: its admission stays.
	Used bool `json:"used,omitempty"`
	// Released is true if its slot is given back: a worker then only counts its end.
	Released bool `json:"given,omitempty"`
	// By is the random ID of the call that has taken it.
	By string `json:"by"`
	// Carried counts the other notifications of its digest, which have ended before; 0 if
	// ClaimNotes has returned it.
	Carried int `json:"-"`

	note string // "" for none
	at   *Shard
}

//go:embed take.lua
var takeSource string

var takeScript = redis.NewScript(settleSource + takeSource)

//go:embed taken.lua
var takenSource string

var takenScript = redis.NewScript(takenSource)

// takeGrace is how long workers leave a new or claimed note alone, unless TakeOptions.Grace is set.
const takeGrace = 2 * time.Second

func (r *Shard) takenKeys() []string {
	return []string{r.Key("taken:notes"), r.Key("taken:due")}
}

// Contents are the parts of a notification that are needed after its job is gone.
type Contents struct {
	App, User, Category string
	// Targets are the outcomes of targets to which nothing was sent.
	Targets []TargetOutcome
}

const (
	// takeTries is how often a job is read if it changes each time.
	takeTries = 5
	// maxTaken bounds the notifications of one script, which takes 50 µs for each.
	maxTaken = 200
)

// AllOthers is a TakeOptions.Others without a bound.
const AllOthers = math.MaxInt

// TakeOptions say how notifications are taken from the queue.
type TakeOptions struct {
	// State is the end state. A notification with a delivered target ends as Delivered instead.
	State State
	// Read reads a job's payload.
	Read func(payload []byte) (Contents, error)
	// Others is the maximum number of other notifications in the digest of a taken carrier; no push
	// shows these notifications any more. AllOthers takes any carrier.
	Others int
	// Grace is the time in which the caller gives slots back; then a worker does. Zero means 2 s.
	Grace time.Duration
}

// Take takes a waiting notification from the queue and ends it. It returns ErrUnknownID, ErrEnded
// or ErrInFlight if it cannot be taken, and a *CarriesError for the carrier of more than
// TakeOptions.Others. After another error the notification may be taken or not: call Take again.
func (r *Shard) Take(ctx context.Context, ref Ref, how TakeOptions) (*Taken, error) {
	taken, errs := r.TakeAll(ctx, []Ref{ref}, how)
	return taken[0], errs[0]
}

// TakeAll is Take for several notifications of the shard, in one script for up to maxTaken. The
// results are in the order of the refs: a Taken or an error.
func (r *Shard) TakeAll(ctx context.Context, refs []Ref, how TakeOptions) ([]*Taken, []error) {
	t := &taking{Shard: r, TakeOptions: how, refs: refs, taken: make([]*Taken, len(refs)), errs: make([]error, len(refs)), jobless: map[int]bool{}}
	for first := 0; first < len(refs); first += maxTaken {
		var left []int
		for i := first; i < min(first+maxTaken, len(refs)); i++ {
			left = append(left, i)
		}
		for try := 0; try < takeTries && len(left) > 0; try++ {
			left = t.try(ctx, left)
			if t.later { // not a failed try: each call takes some notifications
				t.later, try = false, try-1
			}
		}
		for _, i := range left {
			t.errs[i] = ErrInFlight
		}
	}
	return t.taken, t.errs
}

// taking is the state of a TakeAll. It names notifications by the indexes of their refs.
type taking struct {
	*Shard
	TakeOptions
	refs    []Ref
	taken   []*Taken
	errs    []error
	jobless map[int]bool // found without a job once
	later   bool         // the script left notifications for the next call
}

// try reads notifications and takes them. It returns the notifications that changed after the read.
func (t *taking) try(ctx context.Context, places []int) (again []int) {
	ids := make([]string, len(places))
	for k, i := range places {
		ids[k] = t.refs[i].ID
	}
	waiting := map[int]recordAndJob{}
	for k, s := range t.readRecordsAndJobs(ctx, ids) {
		i := places[k]
		if t.errs[i] = t.refuses(i, s); t.errs[i] == nil {
			waiting[i] = s
		}
	}
	var steps []step
	for _, i := range places {
		s, waits := waiting[i]
		switch {
		case !waits || t.errs[i] != nil:
		case s.job == nil && !t.jobless[i]: // it may have ended between the two reads
			t.jobless[i] = true
			again = append(again, i)
		case s.job == nil:
			if t.taken[i], t.errs[i] = t.close(ctx, t.refs[i].ID, s.record, t.State); t.taken[i] == nil && t.errs[i] == nil {
				again = append(again, i)
			}
		default:
			step, err := t.prepare(i, s)
			if t.errs[i] = err; err == nil {
				steps = append(steps, step)
			}
		}
	}
	return append(again, t.take(ctx, steps)...)
}

func (t *taking) refuses(i int, s recordAndJob) error {
	switch {
	case s.err != nil:
		return s.err
	case !t.refs[i].matches(s.record.App, s.record.User):
		return ErrUnknownID
	case s.record.State.Ended():
		return &EndedError{s.record.State}
	case s.job != nil && s.job.active():
		return ErrInFlight
	case s.record.Carried > t.Others:
		return &CarriesError{s.record.Carried}
	}
	return nil
}

// close ends a waiting notification after Redis has lost its job. Its open targets may have been
// sent. It returns nil if the notification has ended meanwhile.
func (r *Shard) close(ctx context.Context, id string, record *Record, state State) (*Taken, error) {
	end := endOf(MarkAmbiguous(record.Outcomes), state)
	end.Error, end.App = "its job was gone", record.App
	if first, err := r.Settle(ctx, id, &end); err != nil || !first {
		return nil, err
	}
	return &Taken{at: r, ID: id, App: record.App, User: record.User, Category: record.Category, State: end.State, Used: true, Carried: record.Carried}, nil
}

// A step is one notification's part in a call of takeScript.
type step struct {
	place int
	queue string
	taken *Taken
	args  []any
}

// prepare returns the step that takes the notification, if it has not changed since it was read.
func (t *taking) prepare(i int, s recordAndJob) (step, error) {
	c, err := t.Read([]byte(s.job.Payload))
	if err != nil {
		return step{}, fmt.Errorf("the job cannot be read, a worker will set it aside: %w", err)
	}
	outcomes := s.record.Outcomes
	if outcomes == nil {
		outcomes = c.Targets
	}
	if s.job.failures > s.record.Attempts {
		outcomes = MarkAmbiguous(outcomes)
	}
	end := endOf(outcomes, t.State)
	end.App = c.App
	one := &Taken{at: t.Shard, ID: t.refs[i].ID, App: c.App, User: c.User, Category: c.Category, State: end.State, By: rand.Text(), Carried: s.record.Carried}
	for k := range outcomes {
		one.Used = one.Used || outcomes[k].Taken()
	}
	note, err := json.Marshal(one)
	if err != nil {
		return step{}, err
	}
	one.note = string(note)
	ends, err := t.end(&end)
	if err != nil {
		return step{}, err
	}
	message := sha1.Sum([]byte(s.job.message))
	return step{i, s.record.Queue, one, append([]any{hex.EncodeToString(message[:]), s.record.outcomes, s.record.Carried, one.note}, ends...)}, nil
}

// take runs the script. It returns the notifications that changed since they were read.
func (t *taking) take(ctx context.Context, steps []step) (changed []int) {
	if len(steps) == 0 {
		return nil
	}
	var queues []string
	for _, s := range steps {
		if !slices.Contains(queues, s.queue) {
			queues = append(queues, s.queue)
		}
	}
	keys := append(t.takenKeys(), t.Key("counts"), t.Key("letters"))
	for _, queue := range queues {
		for _, list := range []string{"pending", "scheduled", "retry", "archived", "due"} {
			keys = append(keys, t.QueueKey(queue, list))
		}
	}
	args := []any{time.Now().UnixMilli(), t.retention.Milliseconds(), cmp.Or(t.Grace, takeGrace).Milliseconds(), len(queues), len(steps), 2 + len(steps[0].args)}
	for _, s := range steps {
		id := t.refs[s.place].ID
		keys = append(keys, t.Key("id:"+id), t.QueueKey(s.queue, "t:"+id))
		args = append(append(args, id, slices.Index(queues, s.queue)+1), s.args...)
	}
	if t.reportsEnds() {
		keys = append(keys, t.Key(outcomesName))
	}
	answers, err := takeScript.Run(ctx, t.client, keys, args...).Slice()
	if err == nil && len(answers) != len(steps) {
		err = errors.New("the answer is incomplete")
	}
	for k, s := range steps {
		its := err
		if its == nil {
			if text, wrong := answers[k].(string); wrong {
				its = replyError(text)
			}
		}
		switch {
		case its != nil:
			t.errs[s.place] = fmt.Errorf("take the job from the queue: %w", its)
		case answers[k] == int64(1):
			t.taken[s.place] = s.taken
		default:
			t.later = t.later || answers[k] == int64(2)
			changed = append(changed, s.place)
		}
	}
	return changed
}

// A replyError is Redis's error about one notification of a script's call.
type replyError string

// Error implements error.
func (e replyError) Error() string { return string(e) }

// RedisError implements redis.Error.
func (replyError) RedisError() {}

// endOf returns the end of a notification that was taken from the queue.
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

// maxNotes bounds the notes that one script changes.
const maxNotes = 1000

// DeleteNotes deletes the notes of notifications after their slots were given back. It returns the
// notifications that had notes until now.
func DeleteNotes(ctx context.Context, all []*Taken) (first []*Taken, err error) {
	noted := map[*Shard][]*Taken{}
	for _, t := range all {
		if t.note == "" {
			first = append(first, t)
		} else {
			noted[t.at] = append(noted[t.at], t)
		}
	}
	var errs []error
	for at, list := range noted {
		for some := range slices.Chunk(list, maxNotes) {
			args := make([]any, 0, 2*len(some))
			for _, t := range some {
				args = append(args, t.ID, t.note)
			}
			dropped, err := at.onNotes(ctx, "drop", args...)
			errs = append(errs, err)
			its := map[string]bool{}
			for _, id := range dropped {
				its[id] = true
			}
			for _, t := range some {
				if its[t.ID] {
					first = append(first, t)
				}
			}
		}
	}
	return first, errors.Join(errs...)
}

// MarkReleased records that these notifications hold no slot or admission any more. Workers then
// only count their ends.
func MarkReleased(ctx context.Context, all []*Taken) error {
	for _, t := range all {
		t.Released = true
	}
	return LeaveToWorkers(ctx, all)
}

// LeaveToWorkers hands the notifications over to the workers, which process their notes at once.
func LeaveToWorkers(ctx context.Context, all []*Taken) error {
	noted := map[*Shard][]any{} // ID, note and new note of each
	for _, t := range all {
		if t.note == "" {
			continue
		}
		note, err := json.Marshal(t)
		if err != nil {
			return err
		}
		noted[t.at] = append(noted[t.at], t.ID, t.note, string(note))
		t.note = string(note)
	}
	var errs []error
	for at, args := range noted {
		for some := range slices.Chunk(args, 3*maxNotes) {
			_, err := at.onNotes(ctx, "leave", some...)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// ClaimNotes returns at most limit notifications that were taken from the queue and have an overdue
// note. No other call returns them for takeGrace. more is true if there may be more.
func (r *Shard) ClaimNotes(ctx context.Context, limit int) (taken []*Taken, more bool, err error) {
	reply, err := r.onNotes(ctx, "claim", takeGrace.Milliseconds(), limit, r.Key("id:"))
	errs := []error{err}
	for i := 0; i+1 < len(reply); i += 2 {
		t := &Taken{at: r, ID: reply[i], note: reply[i+1]}
		if err := json.Unmarshal([]byte(t.note), t); err != nil {
			_, dropped := DeleteNotes(ctx, []*Taken{t})
			errs = append(errs, fmt.Errorf("read the note of a notification that was taken from the queue: %w", err), dropped)
			continue
		}
		taken = append(taken, t)
	}
	return taken, len(reply) >= 2*limit, errors.Join(errs...)
}

// onNotes runs takenScript and returns its reply.
func (r *Shard) onNotes(ctx context.Context, op string, args ...any) ([]string, error) {
	reply, err := takenScript.Run(ctx, r.client, r.takenKeys(), append([]any{op}, args...)...).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("process the notes of notifications that were taken from the queue: %w", err)
	}
	return reply, nil
}
