// Package store holds every key of a notification and every move of its job: records by ID, counts,
// dead letters, notes of notifications that were taken from the queue, and the streams that report
// ends and dead tokens.
//
// Start with Records: it returns the Shard of a user, on which the moves are methods. Each move is
// one script; the comment at its head is its contract. A move that names a claim does nothing if
// the job is no longer in that claim.
//
// The package does not decode notifications. A caller passes the facts in, or a function that reads
// a payload.
package store

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/shard"
)

// A Shard holds the records and counts of its notifications. Their keys and the queues share one
// hash slot, so that a script changes a record, the counts and a job in one step:
//
//	id:ID     hash: a Record
//	counts    hash: a count by name
//	letters   hash: a Letter by ID, in JSON; letters.lua bounds them
type Shard struct {
	shard.Shard

	client redis.UniversalClient
	// alone does not share round trips: its commands end with their context.
	alone     redis.UniversalClient
	prefix    string
	retention time.Duration
	bounds    Bounds // of this shard
}

// A Record is the state of one notification.
type Record struct {
	State    State     `json:"state"`
	App      string    `json:"app,omitempty"`
	User     string    `json:"user,omitempty"`
	Category string    `json:"category,omitempty"`
	Queue    string    `json:"queue"`
	Accepted time.Time `json:"accepted_at"`
	// NotBefore and ExpiresAt are zero if not set.
	NotBefore time.Time `json:"not_before,omitzero"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// Deferrals counts the deferrals by limits. Until, Scope and Rule belong to the last deferral.
	Deferrals int       `json:"deferrals"`
	Until     time.Time `json:"until,omitzero"`
	Scope     string    `json:"scope,omitempty"`
	Rule      string    `json:"rule,omitempty"`
	// Attempts counts the attempts: 1 after a delivery at once.
	Attempts int `json:"attempts"`
	// Excused counts the attempts that failed because of the provider's error state.
	Excused int `json:"-"`
	// FirstAttempt is when the first attempt ended.
	FirstAttempt time.Time `json:"first_attempt,omitzero"`
	// Outcomes holds each target's last outcome, in the order of the targets.
	Outcomes []TargetOutcome `json:"outcomes,omitempty"`
	// Error is the error of the last attempt.
	Error string    `json:"error,omitempty"`
	Ended time.Time `json:"ended_at,omitzero"`
	// Into is the ID of the carrier, if the State is Digested. Carried counts the other
	// notifications in this notification's push, so far if it waits.
	Into    string `json:"into,omitempty"`
	Carried int    `json:"digest,omitempty"`

	outcomes string // as the record stores them
}

//go:embed report.lua
var reportSource string

//go:embed letters.lua
var lettersSource string

//go:embed settle.lua
var endSource string

//go:embed accepted.lua
var acceptedSource string

var settleSource = waitsSource + reportSource + lettersSource + acceptedSource + endSource

//go:embed records.lua
var recordsSource string

var recordsScript = redis.NewScript(settleSource + recordsSource)

func (r *Shard) run(ctx context.Context, op, id string, args ...any) ([]any, error) {
	keys := []string{r.Key("id:" + id), r.Key("counts"), r.Key("letters")}
	if op == "settle" && r.reportsEnds() {
		keys = append(keys, r.Key(outcomesName))
	}
	now := time.Now()
	argv := append([]any{op, id, now.UnixMilli(), r.retention.Milliseconds()}, args...)
	reply, err := recordsScript.Run(ctx, r.client, keys, argv...).Slice()
	if err != nil {
		return nil, fmt.Errorf("change the record of a notification: %s: %w", op, err)
	}
	return reply, nil
}

// Facts describe a new notification in its record.
type Facts struct {
	App, User, Category  string    // without a line feed
	NotBefore, ExpiresAt time.Time // zero for none
	// Digest is the content's digest; nil if the content is unknown.
	Digest []byte
	// Carried counts the other notifications in its push.
	Carried int
}

// fields returns the record's fields as names and values. The field "of" comes first, where
// accept.lua's ofAnotherContent reads it: a line each for app, user and category, then the
// content's digest. They share a field for speed.
func (f *Facts) fields() []any {
	of := make([]byte, 0, 64)
	of = append(append(of, f.App...), '\n')
	of = append(append(of, f.User...), '\n')
	of = append(append(of, f.Category...), '\n')
	all := append(make([]any, 0, 6), "of", append(of, f.Digest...))
	if !f.NotBefore.IsZero() {
		all = append(all, "not_before", f.NotBefore.UnixMilli())
	}
	if !f.ExpiresAt.IsZero() {
		all = append(all, "expires", f.ExpiresAt.UnixMilli())
	}
	if f.Carried > 0 {
		all = append(all, "told", f.Carried)
	}
	return all
}

// splitOf splits a record's field "of"; "" for each unknown part.
func splitOf(text string) (app, user, category string) {
	if of := strings.SplitN(text, "\n", 4); len(of) == 4 {
		app, user, category = of[0], of[1], of[2]
	}
	return app, user, category
}

// Arrive counts a notification as accepted if no Producer did, after a worker has found it on that
// queue.
func (r *Shard) Arrive(ctx context.Context, id, queue string, facts Facts) error {
	_, err := r.run(ctx, "arrive", id, append([]any{queue}, facts.fields()...)...)
	return err
}

// An End describes the end of a notification.
type End struct {
	State    State
	Outcomes []TargetOutcome
	Error    string
	// Attempts counts the attempts; 0 leaves the recorded number.
	Attempts int
	// Deferrals is added to the number that PutOff has counted.
	Deferrals int
	// DeadTokens counts the outcomes that are dead tokens.
	DeadTokens int
	// Letter is stored if State.Dead.
	Letter *Letter
	// App's bounds apply to the Letter and the report of the end.
	App string
}

// Settle ends the notification and counts it. A second call for the same notification changes
// nothing and returns false. After an error, call it again with the same End.
func (r *Shard) Settle(ctx context.Context, id string, e *End) (bool, error) {
	args, err := r.end(e)
	if err != nil {
		return false, err
	}
	reply, err := r.run(ctx, "settle", id, args...)
	if err != nil {
		return false, err
	}
	return reply[0] == int64(1), nil
}

// end returns the arguments of settle.lua.
func (r *Shard) end(e *End) ([]any, error) {
	letter := []byte{}
	if e.State.Dead() && e.Letter != nil {
		var err error
		if letter, err = json.Marshal(e.Letter); err != nil {
			return nil, err
		}
	}
	words, ids := encodeOutcomes(e.Outcomes)
	args := []any{string(e.State), words, ids, e.Error, e.Attempts, e.DeadTokens, letter, e.Deferrals, r.bounds.of(e.App), r.bounds.DeadLetters}
	if r.reportsEnds() {
		targets, err := targetsText(e.Outcomes)
		if err != nil {
			return nil, err
		}
		args = append(args, r.bounds.Outcomes, e.reason(), formatInstant(time.Now()), targets)
	}
	return args, nil
}

// Lookup returns the notification's record, or ErrUnknownID.
func (r *Shard) Lookup(ctx context.Context, id string) (*Record, error) {
	return readRecord(r.client.HGetAll(ctx, r.Key("id:"+id)))
}

func readRecord(all *redis.MapStringStringCmd) (*Record, error) {
	fields, err := all.Result()
	if err != nil {
		return nil, fmt.Errorf("read the record of a notification: %w", err)
	}
	if len(fields) == 0 {
		return nil, ErrUnknownID
	}
	rec := &Record{
		State: State(fields["state"]),
		Queue: fields["queue"], Scope: fields["scope"], Rule: fields["rule"],
		Error: fields["error"], Accepted: instant(fields["accepted"]), Until: instant(fields["until"]),
		NotBefore: instant(fields["not_before"]), ExpiresAt: instant(fields["expires"]),
		FirstAttempt: instant(fields["first"]), Ended: instant(fields["ended"]),
	}
	rec.App, rec.User, rec.Category = splitOf(fields["of"])
	rec.outcomes = fields["outcomes"]
	rec.Into = fields["into"]
	rec.Carried, _ = strconv.Atoi(fields["told"])
	rec.Deferrals, _ = strconv.Atoi(fields["deferrals"])
	rec.Attempts, _ = strconv.Atoi(fields["attempts"])
	rec.Excused, _ = strconv.Atoi(fields["excused"])
	if rec.Attempts > 0 && rec.FirstAttempt.IsZero() { // the first attempt was the last
		rec.FirstAttempt = rec.Ended
	}
	if rec.Outcomes, err = decodeOutcomes(fields["outcomes"], fields["sent"]); err != nil {
		return nil, fmt.Errorf("read the record of a notification: %w", err)
	}
	return rec, nil
}

func instant(ms string) time.Time {
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

// Counts are sums over all notifications.
type Counts struct {
	Accepted   int64
	Ended      map[State]int64
	Malformed  int64
	Deferred   int64 // deferrals
	Booked     int64 // waiting notifications that a limit has deferred
	DeadTokens int64
	Letters    int64 // dead letters in store
	// Dropped counts the entries that were deleted because of an app's bound.
	Dropped map[Dropped]int64
}

// Dropped names a kind of entry that is bounded per app. App is "" for all apps that the
// configuration does not name.
type Dropped struct {
	Kind string // DeadLetters, OutcomeReports or DeadTokenReports
	App  string
}

// Values of Dropped.Kind. A report counts as dropped if the app's webhook had not acknowledged it.
const (
	DeadLetters      = "dead_letters"
	OutcomeReports   = "outcomes"
	DeadTokenReports = "dead_tokens"
)

// Waiting returns the number of notifications that were accepted and have not ended.
func (c Counts) Waiting() int64 {
	n := c.Accepted
	for _, ended := range c.Ended {
		n -= ended
	}
	return n
}

// CountsOn adds the commands that read the counts to pipe. Call the returned function after pipe
// was executed.
func (r *Shard) CountsOn(ctx context.Context, pipe redis.Pipeliner) func() (Counts, error) {
	counts := pipe.HGetAll(ctx, r.Key("counts"))
	letters := pipe.HLen(ctx, r.Key("letters"))
	return func() (Counts, error) { return readCounts(counts.Val(), letters.Val()) }
}

func readCounts(fields map[string]string, letters int64) (Counts, error) {
	counts, dropped := make(map[string]int64, len(fields)), map[Dropped]int64{}
	for name, text := range fields {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return Counts{}, fmt.Errorf("read the counts of notifications: %s: %w", name, err)
		}
		if rest, ok := strings.CutPrefix(name, "dropped:"); ok {
			what, app, _ := strings.Cut(rest, ":")
			dropped[Dropped{what, app}] = n
		}
		counts[name] = n
	}
	c := Counts{
		Accepted: counts["accepted"], Ended: make(map[State]int64, len(EndStates)), Malformed: counts["malformed"],
		Deferred: counts["deferred"], Booked: counts["booked"], DeadTokens: counts["dead_tokens"], Letters: letters, Dropped: dropped,
	}
	for _, s := range EndStates {
		c.Ended[s] = counts[string(s)]
	}
	return c, nil
}
