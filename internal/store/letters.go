package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Letter is a dead letter: a notification that was rejected or exhausted, or
// a job that is not one. The oldest of an app go when it has too many: see Bounds.
type Letter struct {
	ID       string `json:"id"`
	State    State  `json:"state"` // Malformed for what is no notification
	Reason   string `json:"reason"`
	Attempts int    `json:"attempts"`
	Error    string `json:"error,omitempty"`
	// Outcomes are the last ones of each target, as in a Record.
	Outcomes []TargetOutcome `json:"outcomes,omitempty"`
	At       time.Time       `json:"at"`
	Queue    string          `json:"queue"`
	// App, User and Category are the notification's. Lists tell them. They are kept beside
	// a Job that cannot be read and was accepted; else they are in it: see Tell.
	App      string `json:"app,omitempty"`
	User     string `json:"user,omitempty"`
	Category string `json:"category,omitempty"`
	// Job is the queue's payload. A list leaves it out.
	Job []byte `json:"job,omitempty"`

	text []byte // as it is kept
}

// Malformed is the state of a Letter whose job could not be read. It is no
// notification's: it counts apart.
const Malformed State = "malformed"

// ErrNoLetter means that no dead letter has that ID.
var ErrNoLetter = errors.New("there is no dead letter with this ID")

// SetAside keeps a job that cannot be read, and counts it as malformed, once
// for each ID of a letter. When it was accepted as a notification, by a newer
// producer, say, that ends as rejected instead, and when the letter has more
// attempts than are recorded, as one that may have been sent; a job on another
// queue than the notification's is not that. The letter then has the state in which
// it ends, and whose it is.
func (r *Shard) SetAside(ctx context.Context, l *Letter) error {
	record, err := r.Lookup(ctx, l.ID)
	if err == nil && !record.State.Ended() && (record.Queue == "" || record.Queue == l.Queue) {
		l.State, l.Outcomes = Rejected, record.Outcomes
		l.App, l.User, l.Category = record.App, record.User, record.Category
		if l.Attempts > record.Attempts {
			l.Outcomes = Doubt(record.Outcomes)
		}
		_, err = r.Settle(ctx, l.ID, &End{State: Rejected, Outcomes: l.Outcomes, Error: l.Error, Letter: l, App: l.App})
		return err
	}
	if err != nil && !errors.Is(err, ErrUnknownID) {
		return err
	}
	return r.KeepMalformed(ctx, l)
}

// KeepMalformed keeps a letter of what was never accepted, and counts it, once for each ID of a
// letter. A notification with that ID is another.
func (r *Shard) KeepMalformed(ctx context.Context, l *Letter) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	_, err = r.run(ctx, "malformed", l.ID, text, r.bounds.DeadLetters)
	return err
}

// Drop ends a job that is set aside, unless it is in another hand.
func (r *Shard) Drop(ctx context.Context, j *Job) error {
	e := r.NewEnds(j.Queue)
	e.Add(j)
	cmd := e.Command(ctx)
	_ = r.client.Process(ctx, cmd) // the error is the command's
	errs, err := e.Read(ctx, cmd)
	if err == nil {
		err = errs[0]
	}
	if errors.Is(err, ErrNotInHand) {
		return nil
	}
	return err
}

// Letter answers the dead letter with that ID, or ErrNoLetter.
func (r *Shard) Letter(ctx context.Context, id string) (*Letter, error) {
	text, err := r.client.HGet(ctx, r.Key("letters"), id).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, ErrNoLetter
	}
	if err != nil {
		return nil, fmt.Errorf("dead letter: %w", err)
	}
	return readLetter(text)
}

func readLetter(text []byte) (*Letter, error) {
	l := &Letter{text: text}
	if err := json.Unmarshal(text, l); err != nil {
		return nil, fmt.Errorf("a dead letter does not decode: %w", err)
	}
	return l, nil
}

// Tell adds whose the letter is, where that is not kept, by what read reads in its job.
func (l *Letter) Tell(read func(payload []byte) (Contents, error)) {
	if l.App != "" {
		return
	}
	if its, err := read(l.Job); err == nil {
		l.App, l.User, l.Category = its.App, its.User, its.Category
	}
}

// Ref names the letter, once it tells whose it is.
func (l *Letter) Ref() Ref { return Ref{l.ID, l.App, l.User} }

// ErrCursor means that a cursor is none that LettersFrom has answered.
var ErrCursor = errors.New("the cursor is not known")

// LettersFrom answers about as many dead letters as limit says, in no order, and
// the cursor that the next call goes on from; "" begins, and is answered at the
// end. One that comes or goes meanwhile may be missed, and one may come twice.
func (r *Shard) LettersFrom(ctx context.Context, cursor string, limit int) (letters []*Letter, next string, err error) {
	at := uint64(0)
	if cursor != "" {
		if at, err = strconv.ParseUint(cursor, 10, 64); err != nil || at == 0 {
			return nil, "", ErrCursor
		}
	}
	for len(letters) < limit {
		fields, then, err := r.client.HScan(ctx, r.Key("letters"), at, "", int64(limit)).Result()
		if err != nil {
			return nil, "", fmt.Errorf("dead letters: %w", err)
		}
		for i := 1; i < len(fields); i += 2 {
			l, err := readLetter([]byte(fields[i]))
			if err != nil {
				return nil, "", err
			}
			letters = append(letters, l)
		}
		if at = then; at == 0 {
			return letters, "", nil
		}
	}
	return letters, strconv.FormatUint(at, 10), nil
}

// Purge deletes the dead letter, and returns false if there is none. The notification stays
// counted in its end state.
func (r *Shard) Purge(ctx context.Context, id string) (bool, error) {
	reply, err := r.run(ctx, "purge", id)
	return err == nil && reply[0] == int64(1), err
}
