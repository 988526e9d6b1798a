package store

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/pushpace/pushpace/internal/base/strictjson"
)

// An OutcomeEvent tells how a notification has ended.
type OutcomeEvent struct {
	// Entry is the event's ID in the stream. The same end may be told again under
	// another one.
	Entry string `json:"entry"`
	// ID is the notification's; App, User and Category are its own, and empty when
	// they could not be read.
	ID       string `json:"id"`
	App      string `json:"app"`
	User     string `json:"user"`
	Category string `json:"category,omitempty"`
	// State is one of EndStates, Reason why it was rejected or exhausted.
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Into is the notification whose push tells of this one, which is Digested.
	Into string `json:"into,omitempty"`
	// Attempts is how often it was sent.
	Attempts int       `json:"attempts"`
	At       time.Time `json:"at"`
	// Targets are the last outcomes of each target, in the order of the targets; there
	// may be none when nothing was sent, or they cannot be read.
	Targets []TargetOutcome `json:"targets"`
}

// Outcomes are the events of how notifications have ended, each at least once. The
// Records write them: see Bounds.
//
//	outcomes:APP    stream of each shard: id, app, user, category, state, reason, attempts,
//	                at in RFC 3339, targets in JSON, and into where there is one
//
// Readers that are one another's substitutes share a consumer group, by Next and
// Ack. It holds the latest events only.
type Outcomes struct{ streams }

const outcomesName = "outcomes"

// NewOutcomes returns the events beside the records.
func NewOutcomes(records *Records) *Outcomes {
	return &Outcomes{newStreams(records, outcomesName, "outcome events")}
}

// Next returns at most n of the app's events, none acknowledged by the group: events that
// a reader took and left for the time `left`, or else new ones. A new group begins with
// the oldest event in the stream.
func (o *Outcomes) Next(ctx context.Context, app, group string, left time.Duration, n int) ([]OutcomeEvent, error) {
	entries, err := o.streams.next(ctx, app, group, left, n)
	if err != nil {
		return nil, err
	}
	events := make([]OutcomeEvent, len(entries))
	for i, e := range entries {
		events[i] = OutcomeEvent{
			Entry: e.ID, ID: field(e, "id"), App: field(e, "app"), User: field(e, "user"), Category: field(e, "category"),
			State: State(field(e, "state")), Reason: field(e, "reason"), Into: field(e, "into"), At: readInstant(e, "at"),
		}
		events[i].Attempts, _ = strconv.Atoi(field(e, "attempts"))
		if json.Unmarshal([]byte(field(e, "targets")), &events[i].Targets) != nil || events[i].Targets == nil {
			events[i].Targets = []TargetOutcome{} // an error would hold up what came with it, for ever
		}
	}
	return events, nil
}

// Ack acknowledges events of the app for the group.
func (o *Outcomes) Ack(ctx context.Context, app, group string, events ...OutcomeEvent) error {
	ids := make([]string, len(events))
	for i := range events {
		ids[i] = events[i].Entry
	}
	return o.streams.ack(ctx, app, group, ids)
}

// tells reports whether ends are told of.
func (r *Shard) tells() bool { return r.bounds.Outcomes > 0 }

func targetsText(outcomes []TargetOutcome) (string, error) {
	if outcomes == nil {
		outcomes = []TargetOutcome{}
	}
	text, err := strictjson.Encode(outcomes)
	return string(text), err
}

// reason is why it ended dead.
func (e *End) reason() string {
	if e.State.Dead() && e.Letter != nil {
		return e.Letter.Reason
	}
	return ""
}
