// Package watch shows what happens in all workers while somebody looks, and costs next to
// nothing while nobody does: a GET in what workers ask anyway, and one look at a flag for
// each notification.
//
// Who looks keeps a key alive. The workers see it when they look at the pauses, and tell
// then what has happened since they last did, in the same step.
package watch

import (
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/pushpace/pushpace/push"
)

// An Event is what became of a notification in a worker's hands: it has ended, or was put
// off. It has no token, and nothing of what is sent.
type Event struct {
	At time.Time `json:"at"`
	// State is how it has ended, or push.Waiting when it was put off.
	State     push.State      `json:"state"`
	ID        string          `json:"id"`
	App       string          `json:"app"`
	User      string          `json:"user"`
	Category  string          `json:"category,omitempty"`
	Priority  push.Priority   `json:"priority,omitempty"`
	Platforms []push.Platform `json:"platforms,omitempty"`
	// For is what one waits for that was put off, as a control.Cause, and Until when it
	// asks again; zero when something else wakes it.
	For   string    `json:"for,omitempty"`
	Until time.Time `json:"until,omitzero"`
	// Reason is a provider's, or the limit that put it off.
	Reason string `json:"reason,omitempty"`
}

// A batch is what a worker tells at once.
type batch struct {
	Events []Event `json:"events"`
	// Left is how many more there were.
	Left int64 `json:"left,omitempty"`
}

// most is how many events a worker tells at once, twice a second. A fifth of the places is
// not for deliveries: many of them do not hide what else happens.
const (
	most          = 50
	mostDelivered = most * 4 / 5
)

// A Feed gathers a worker's events while somebody watches. It is safe for concurrent use.
type Feed struct {
	watched atomic.Bool
	events  chan Event
	left    atomic.Int64
}

// NewFeed returns one that nobody watches.
func NewFeed() *Feed { return &Feed{events: make(chan Event, most)} }

// Watched reports whether events are to be told.
func (f *Feed) Watched() bool { return f.watched.Load() }

// Tell adds an event to those that are told next, or counts it where there is no place.
func (f *Feed) Tell(e Event) {
	if e.State != push.Delivered || len(f.events) < mostDelivered {
		select {
		case f.events <- e:
			return
		default:
		}
	}
	f.left.Add(1)
}

// Watch begins to take events, or stops. It is one goroutine's, as Take is.
func (f *Feed) Watch(on bool) {
	if f.watched.Swap(on) && !on {
		f.Take()
	}
}

// Take returns what there is to tell and forgets it; "" for nothing.
func (f *Feed) Take() string {
	b := batch{Left: f.left.Swap(0)}
	for range len(f.events) {
		b.Events = append(b.Events, <-f.events)
	}
	if len(b.Events) == 0 && b.Left == 0 {
		return ""
	}
	text, _ := json.Marshal(b) // of texts and instants
	return string(text)
}
