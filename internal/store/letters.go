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

// A Letter is a dead letter: a notification that was rejected or exhausted, or a malformed job. An
// app's oldest letters are deleted when it has too many: see Bounds.
type Letter struct {
	ID       string `json:"id"`
	State    State  `json:"state"` // Malformed for a malformed job
	Reason   string `json:"reason"`
	Attempts int    `json:"attempts"`
	Error    string `json:"error,omitempty"`
	// Outcomes holds each target's last outcome, as in a Record.
	Outcomes []TargetOutcome `json:"outcomes,omitempty"`
	At       time.Time       `json:"at"`
	Queue    string          `json:"queue"`
	// Lists show App, User and Category. They are stored only if the Job cannot be read and was
	// accepted; otherwise FillOwner reads them from the Job.
	App      string `json:"app,omitempty"`
	User     string `json:"user,omitempty"`
	Category string `json:"category,omitempty"`
	// Job is the queue's payload; nil in lists.
	Job []byte `json:"job,omitempty"`

	text []byte // the stored JSON
}

// Malformed is the state of an unreadable job's Letter. No notification has this state; it has its
// own count.
const Malformed State = "malformed"

// ErrNoLetter means that no dead letter has that ID.
var ErrNoLetter = errors.New("there is no dead letter with this ID")

// SetAside stores a letter for a job that cannot be read, and counts it as malformed, once for each
// ID. If the job belongs to a waiting notification on the same queue (accepted by a newer producer,
// for example), that notification ends as rejected instead. Then the letter gets the state rejected
// and the notification's app, user and category. If the letter has more attempts than the record,
// open targets count as possibly sent.
func (r *Shard) SetAside(ctx context.Context, l *Letter) error {
	record, err := r.Lookup(ctx, l.ID)
	if err == nil && !record.State.Ended() && (record.Queue == "" || record.Queue == l.Queue) {
		l.State, l.Outcomes = Rejected, record.Outcomes
		l.App, l.User, l.Category = record.App, record.User, record.Category
		if l.Attempts > record.Attempts {
			l.Outcomes = MarkAmbiguous(record.Outcomes)
		}
		_, err = r.Settle(ctx, l.ID, &End{State: Rejected, Outcomes: l.Outcomes, Error: l.Error, Letter: l, App: l.App})
		return err
	}
	if err != nil && !errors.Is(err, ErrUnknownID) {
		return err
	}
	return r.KeepMalformed(ctx, l)
}

// KeepMalformed stores a letter of a job that was never accepted, and counts it, once for each ID.
// It leaves a notification with that ID alone.
func (r *Shard) KeepMalformed(ctx context.Context, l *Letter) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	_, err = r.run(ctx, "malformed", l.ID, text, r.bounds.DeadLetters)
	return err
}

// Drop ends a job that is set aside, unless it is in another claim.
func (r *Shard) Drop(ctx context.Context, j *Job) error {
	e := r.NewEnds(j.Queue)
	e.Add(j)
	cmd := e.Command(ctx)
	_ = r.client.Process(ctx, cmd) // the command keeps the error
	errs, err := e.Read(ctx, cmd)
	if err == nil {
		err = errs[0]
	}
	if errors.Is(err, ErrNotClaimed) {
		return nil
	}
	return err
}

// Letter returns the dead letter with that ID, or ErrNoLetter.
func (r *Shard) Letter(ctx context.Context, id string) (*Letter, error) {
	text, err := r.client.HGet(ctx, r.Key("letters"), id).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, ErrNoLetter
	}
	if err != nil {
		return nil, fmt.Errorf("read the dead letter: %w", err)
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

// FillOwner sets App, User and Category from the job, which read decodes, if they are not stored.
func (l *Letter) FillOwner(read func(payload []byte) (Contents, error)) {
	if l.App != "" {
		return
	}
	if its, err := read(l.Job); err == nil {
		l.App, l.User, l.Category = its.App, its.User, its.Category
	}
}

// Ref returns the letter's name. Call FillOwner first.
func (l *Letter) Ref() Ref { return Ref{l.ID, l.App, l.User} }

// ErrCursor means that no call can have returned this cursor.
var ErrCursor = errors.New("the cursor is not known")

// LettersFrom returns dead letters, unordered, and the cursor for the next call; limit is their
// approximate number. The cursor "" starts, and is returned at the end. A letter that is added or
// deleted meanwhile may be missed, and a letter may be returned twice.
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
			return nil, "", fmt.Errorf("read the dead letters: %w", err)
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

// Purge deletes the dead letter, and returns false if there is none. The notification stays counted
// in its end state.
func (r *Shard) Purge(ctx context.Context, id string) (bool, error) {
	reply, err := r.run(ctx, "purge", id)
	return err == nil && reply[0] == int64(1), err
}
