package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed requeue.lua
var requeueSource string

var requeueScript = redis.NewScript(WakeIdle + waitsSource + lettersSource + requeueSource)

// ErrJobExists means that a worker still has the job of the last attempt, or that another
// notification's job has the ID.
var ErrJobExists = errors.New("a job with this ID still exists: the last attempt's, or another notification's")

// Requeue puts the letter's notification back on its queue with the payload job and a new budget of
// attempts, and deletes the letter. headers are asynq's, and may be nil. facts describe the job;
// nil if it is unreadable. Requeue returns ErrNoLetter if the letter is gone or the notification's
// state has changed since, and ErrJobExists if a worker still has the last job or another
// notification's job has the ID.
func (r *Shard) Requeue(ctx context.Context, l *Letter, job []byte, headers map[string]string, facts *Facts) error {
	keys := []string{
		r.Key("id:" + l.ID), r.Key("counts"), r.Key("letters"),
		r.QueueKey(l.Queue, "t:"+l.ID), r.QueueKey(l.Queue, "pending"), r.QueueKey(l.Queue, "scheduled"),
		r.QueueKey(l.Queue, "retry"), r.QueueKey(l.Queue, "archived"), r.IdleKey(l.Queue),
	}
	args := []any{l.ID, l.text, string(l.State), l.Queue, Message(l.ID, r.Queue(l.Queue), job, headers), time.Now().UnixNano()}
	if facts != nil {
		args = append(args, facts.fields()...)
	}
	if outcomes := ambiguousOutcomes(l.Outcomes); outcomes != nil {
		words, _ := encodeOutcomes(outcomes)
		args = append(args, "outcomes", words)
	}
	switch answer, err := requeueScript.Run(ctx, r.client, keys, args...).Text(); {
	case err != nil:
		return fmt.Errorf("requeue: %w", err)
	case answer == "none":
		return ErrNoLetter
	case answer == "in hand":
		return ErrJobExists
	}
	return nil
}

// ambiguousOutcomes returns the outcomes before a new attempt to all targets of a letter: it keeps
// only which targets are ambiguous; nil if no target is.
func ambiguousOutcomes(outcomes []TargetOutcome) []TargetOutcome {
	var known []TargetOutcome
	for i, o := range outcomes {
		if !o.Ambiguous {
			continue
		}
		if known == nil {
			known = make([]TargetOutcome, len(outcomes))
			for j, o := range outcomes {
				known[j] = TargetOutcome{Platform: o.Platform, TokenEnd: o.TokenEnd, FIDEnd: o.FIDEnd}
			}
		}
		known[i].Ambiguous = true
	}
	return known
}
