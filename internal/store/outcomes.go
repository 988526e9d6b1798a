package store

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/pushpace/pushpace/internal/base/strictjson"
)

// An OutcomeEvent reports the end of a notification.
type OutcomeEvent struct {
	// Entry is the event's ID in the stream. The end of one notification may be reported more than
	// once, each time with a new Entry.
	Entry string `json:"entry"`
	// ID is the notification's. App, User and Category are empty if they could not be read.
	ID       string `json:"id"`
	App      string `json:"app"`
	User     string `json:"user"`
	Category string `json:"category,omitempty"`
	// State is one of EndStates. Reason is why the notification was rejected or exhausted.
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Into is the ID of the carrier, if the State is Digested.
	Into string `json:"into,omitempty"`
	// Attempts counts the notification's attempts.
	Attempts int       `json:"attempts"`
	At       time.Time `json:"at"`
	// Targets holds each target's last outcome, in the order of the targets; empty if nothing was
	// sent, or if they cannot be read.
	Targets []TargetOutcome `json:"targets"`
}

// Outcomes are the events of notifications' ends, each delivered at least once. The Records write
// the events: see Bounds.
//
//	outcomes:APP    stream of each shard: id, app, user, category, state, reason, attempts,
//	                at in RFC 3339, targets in JSON, and into if there is one
//
// Readers that replace one another name the same consumer group to Next and Ack. The stream holds
// the latest events only.
type Outcomes struct{ streams }

const outcomesName = "outcomes"

// NewOutcomes returns the events in the records' shards.
func NewOutcomes(records *Records) *Outcomes {
	return &Outcomes{newStreams(records, outcomesName, "outcome events")}
}

// Next returns at most n of the app's events that the group has not acknowledged: events that a
// reader took at least minAge ago, or if there are none, new events. A new group begins with the
// oldest event in the stream.
func (o *Outcomes) Next(ctx context.Context, app, group string, minAge time.Duration, n int) ([]OutcomeEvent, error) {
	entries, err := o.streams.next(ctx, app, group, minAge, n)
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
			events[i].Targets = []TargetOutcome{} // an error would block the events of the same call for ever
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

// reportsEnds reports whether ends are reported.
func (r *Shard) reportsEnds() bool { return r.bounds.Outcomes > 0 }

func targetsText(outcomes []TargetOutcome) (string, error) {
	if outcomes == nil {
		outcomes = []TargetOutcome{}
	}
	text, err := strictjson.Encode(outcomes)
	return string(text), err
}

// reason returns why the notification was rejected or exhausted, or "".
func (e *End) reason() string {
	if e.State.Dead() && e.Letter != nil {
		return e.Letter.Reason
	}
	return ""
}
