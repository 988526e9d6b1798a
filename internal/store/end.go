package store

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed end.lua
var endJobsSource string

var endScript = redis.NewScript(waitsSource + reportSource + claimSource + endJobsSource)

// statsRetention is how long asynq's tools can read the counts of a day.
const statsRetention = 90 * 24 * time.Hour

// Ends are jobs of one queue that end in one script call. Not safe for concurrent use.
type Ends struct {
	records *Shard
	queue   string
	n       int
	keys    []string
	args    []any
	targets []any // the targets of each job in JSON, if ends are reported
}

// NewEnds returns an empty batch.
func (r *Shard) NewEnds(queue string) *Ends { return &Ends{records: r, queue: queue} }

// Add adds a job of a notification that has already ended.
func (e *Ends) Add(j *Job) { e.add(j, 0, "", "", nil) }

// Settle adds a job and ends its notification in the same step, as delivered at the first attempt.
func (e *Ends) Settle(j *Job, outcomes []TargetOutcome) {
	words, ids := encodeOutcomes(outcomes)
	e.add(j, 1, words, ids, outcomes)
}

func (e *Ends) add(j *Job, settles int, words, ids string, outcomes []TargetOutcome) {
	e.n++
	e.keys = append(e.keys, e.records.QueueKey(e.queue, "t:"+j.ID), e.records.Key("id:"+j.ID))
	e.args = append(e.args, j.ID, j.Claim, settles, words, ids)
	if e.records.reportsEnds() {
		targets, _ := targetsText(outcomes) // strings always encode
		e.targets = append(e.targets, targets)
	}
}

// Len returns the number of jobs.
func (e *Ends) Len() int { return e.n }

// Command returns the command that ends the jobs; the caller sends it.
func (e *Ends) Command(ctx context.Context) *redis.Cmd {
	keys, args := e.call()
	return endScript.EvalSha(ctx, e.records.client.Pipeline(), keys, args...) // the pipeline only builds the command and is not sent
}

// call returns the keys and arguments of the script.
func (e *Ends) call() (keys []string, args []any) {
	r, now := e.records, time.Now()
	day := "processed:" + now.UTC().Format(time.DateOnly)
	keys = slices.Concat(r.queueKeys(e.queue, "active", day, "processed"), []string{r.Key("counts")}, e.keys)
	args = append([]any{now.UnixMilli(), r.retention.Milliseconds(), now.Add(statsRetention).Unix(), e.queue}, e.args...)
	if r.reportsEnds() {
		keys = append(keys, r.Key(outcomesName))
		args = append(append(args, r.bounds.Outcomes, formatInstant(now)), e.targets...)
	}
	return keys, args
}

// Read reads the Command's answer, and repeats the Command for a server that does not have the
// script. For each job it returns nil, ErrNotClaimed, ErrUndone, or the error of its record.
func (e *Ends) Read(ctx context.Context, cmd *redis.Cmd) ([]error, error) {
	if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		keys, args := e.call()
		cmd = endScript.Eval(ctx, e.records.client, keys, args...)
	}
	reply, err := cmd.Slice()
	if err != nil {
		return nil, err
	}
	if len(reply) != e.n {
		return nil, fmt.Errorf("got %d answers of Redis for %d ended jobs", len(reply), e.n)
	}
	problems := make([]error, e.n)
	for i, answer := range reply {
		switch answer := answer.(type) {
		case string:
			problems[i] = fmt.Errorf("end the notification in its record: %s", answer)
		case int64:
			problems[i] = [...]error{ErrNotClaimed, nil, ErrUndone}[answer]
		}
	}
	return problems, nil
}
