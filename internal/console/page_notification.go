package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
)

// A notificationView is the data of notification.html.
type notificationView struct {
	*inspect.Status
	// Answer describes the state, Tone its colour, and Until when it changes.
	Answer []words.Sentence
	Tone   words.Tone
	Until  time.Time
	Steps  []step
	// Position is the notification's position in its user's queue for the limits; nil without one.
	Position *queuePosition
	// Keeping are the pauses that hold the notification, or some of its targets.
	Keeping []words.Sentence
	Targets []targetView
	// Payload is the notification's content; nil if it is not stored any more.
	Payload *payload
	// Here is the address of this page, and Letter that of the dead letter; "" without one.
	Here, Letter string
}

// A step is a part of a notification's history.
type step struct {
	Name string
	At   time.Time // zero if the step has no instant
	Text string    // "" for nothing more
	Tone words.Tone
	// Until is an instant shown after the text; zero for none.
	Until time.Time
}

// A queuePosition is a position in a user's queue.
type queuePosition struct {
	Number int64
	Of     string
	// After is the ID of the notification at the previous position; "" for the first position.
	After string
}

// A targetView is the outcome of a target.
type targetView struct {
	store.TargetOutcome
	Number int64
	Said   string
	Tone   words.Tone
}

func (c *Console) notificationPage(ctx context.Context, v *visit) (page, error) {
	known, err := v.as.Notification(ctx, v.ref())
	if err != nil {
		return page{}, err
	}
	ref := push.Ref{ID: v.PathValue("id"), App: known.App, User: known.User}
	view := viewOfNotification(known.Status, known.Timeline, known.Letter, time.Now())
	view.Here = refTo("notifications", ref)
	if known.Letter != nil {
		its := *known.Letter // a copy: the original is cached
		its.FillOwner(push.Contents)
		view.Letter = refTo("dead-letters", its.Ref())
	}
	return page{name: "notification", title: "Notification " + words.Printable(ref.ID), live: true, data: view}, nil
}

// viewOfNotification makes the page of a status, of the user's timeline if it waits in one, and
// of its dead letter if there is one.
func viewOfNotification(s *inspect.Status, line *inspect.Timeline, letter *store.Letter, now time.Time) notificationView {
	v := notificationView{Status: s, Steps: historyOf(s, now)}
	v.Tone = v.Steps[len(v.Steps)-1].Tone
	if s.Waits == nil {
		v.Answer = []words.Sentence{words.Say(words.Ended(s.Record))}
	} else {
		waits := words.Waits(s, now)
		for _, what := range waits.For {
			v.Answer = append(v.Answer, words.Say("It waits for ", what))
		}
		if v.Keeping = waits.Keeping; !waits.Until.After(now) {
			waits.Until = time.Time{}
		}
		v.Until = waits.Until
	}
	v.Targets = targetsOf(s.Outcomes, s.State)
	if line != nil {
		v.Position = positionOf(s.ID, line)
	}
	switch {
	case s.Notification != nil:
		v.Payload = new(payloadOf(s.Notification))
	case letter != nil:
		v.Payload = new(payloadOfJob(letter.Job))
	}
	return v
}

// historyOf returns the notification's history, its present state last.
func historyOf(s *inspect.Status, now time.Time) []step {
	way := []step{{Name: "Accepted", At: s.Accepted, Text: "on the queue " + s.Queue}}
	if !s.NotBefore.IsZero() {
		way[0].Text, way[0].Until = way[0].Text+", to be sent no sooner than", s.NotBefore
	}
	if s.Deferrals > 0 {
		off := step{Name: "Put off " + words.Counted(s.Deferrals, "time", "times")}
		if s.Scope != "" && !s.Record.Until.IsZero() { // the record may have lost the limit
			off.Text, off.Until = "by "+words.Limit(s.Scope, s.Rule, 0)+", until", s.Record.Until
			if s.Deferrals > 1 {
				off.Text = "the last time " + off.Text
			}
		}
		way = append(way, off)
	}
	if s.Attempts > 0 {
		text := "once"
		if s.Attempts > 1 {
			text = fmt.Sprintf("for the first time; %d attempts in all", s.Attempts)
		}
		if s.Error != "" && s.Waits != nil {
			text += "; the last one failed: " + s.Error
		}
		way = append(way, step{Name: "Sent", At: s.FirstAttempt, Text: text})
	}
	if s.Waits == nil {
		text := string(s.State)
		if s.Error != "" {
			text += ": " + s.Error
		}
		return append(way, step{Name: "Ended", At: s.Ended, Text: text, Tone: toneOf(s.State)})
	}
	at := step{Name: "Now", Text: words.Job(s.Job), Tone: words.Warns, Until: s.Waits.Until}
	if s.Job == "" {
		at.Text = "it has no job"
	}
	if s.Waits.Until.After(now) {
		at.Text += ", until"
	} else {
		at.Until = time.Time{}
	}
	return append(way, at)
}

// toneOf is Wrong if sending failed. An expired, cancelled or superseded notification has not
// failed.
func toneOf(s push.State) words.Tone {
	if s.Dead() {
		return words.Wrong
	}
	return words.Well
}

// targetsOf describes the outcomes of the targets of a notification in that state.
func targetsOf(outcomes []store.TargetOutcome, s push.State) (all []targetView) {
	for i, o := range outcomes {
		all = append(all, targetView{o, int64(i + 1), words.Outcome(o), words.OutcomeTone(o, s)})
	}
	return all
}

// positionOf returns the notification's position in its user's queue; nil without one.
func positionOf(id string, line *inspect.Timeline) *queuePosition {
	at := slices.IndexFunc(line.Bookings, func(w inspect.Waiter) bool { return w.ID == id || w.ID == throttle.AdmissionID(id) })
	if at < 0 {
		return nil
	}
	t := &queuePosition{Number: int64(at + 1), Of: words.Grouped(len(line.Bookings))}
	if len(line.Bookings) >= throttle.MaxEntries {
		t.Of = "at least " + t.Of
	}
	if at > 0 {
		t.After = line.Bookings[at-1].ID
	}
	return t
}

// cancelNotification cancels the notification. It also cancels the other notifications in its
// digest, once the visitor has confirmed their number.
func (c *Console) cancelNotification(ctx context.Context, v *visit) (page, error) {
	ref := v.ref()
	back := refTo("notifications", ref)
	status, err := v.as.Status(ctx, ref)
	switch {
	case err != nil:
		return page{}, err
	case status.State.Ended():
		return page{}, push.ErrEnded
	}
	ask := func(carried int) page {
		n := 1 + carried
		sentences := []string{"1 notification that waits is ended, and never sent. What waits behind it moves up."}
		if carried > 0 {
			sentences = append(sentences, "Its push is a digest of "+words.Counted(carried, "other, which ends", "others, which end")+" with it.")
		}
		return confirm(v, "Cancel a notification", confirmation{
			Sentences: sentences, Facts: texts("ID", ref.ID, "App", status.App, "User", status.User, "Category", status.Category),
			Expect: n, Button: "Cancel notification", Back: back,
		})
	}
	n := 1 + status.Carried
	if !v.expects(n) {
		return ask(status.Carried), nil
	}
	err = v.as.Cancel(ctx, ref, status.Carried)
	if carries := new(push.CarriesError); errors.As(err, &carries) { // others have joined meanwhile
		return ask(carries.Others), nil
	}
	if err != nil {
		return page{}, err
	}
	return page{to: address(back, field{"done", "cancelled"}, field{"n", strconv.Itoa(n)})}, nil
}
