package worker

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/push"
)

// A Hold is an operator's pause: all workers keep what it matches on the queue,
// where it spends neither attempts nor slots. Each of App, Platform and Category
// matches any when it is empty, so that the zero value holds everything.
type Hold struct {
	App      string        `json:"app,omitempty"`
	Platform push.Platform `json:"platform,omitempty"`
	Category string        `json:"category,omitempty"`
	// Until is when it ends, on Redis's clock; zero when it has no end.
	Until time.Time `json:"until,omitzero"`
	// By is who has begun it, at most 128 bytes, and Reason why, at most 512.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	// At is when it was begun, on Redis's clock.
	At time.Time `json:"at,omitzero"`

	over    time.Time // Until on the local clock
	endedBy string    // who has ended it
}

const (
	// maxHolds bounds how many there are: every worker reads them all.
	maxHolds       = 1000
	maxReasonBytes = 512
)

// ErrHoldOver means that the end of a hold that was to begin has passed.
var ErrHoldOver = errors.New("the pause would be over already")

// ErrTooManyHolds means that 1,000 others are in force.
var ErrTooManyHolds = errors.New("too many pauses are in force: end some of them first")

// Holds are shared by all workers, beside the Pauses:
//
//	PREFIX:{pauses}:operators        hash by SELECTOR: "END AT {by, reason}", END
//	                                 and AT in Unix ms of Redis's clock, END 0 when
//	                                 it has none; what was ended stays for a while
//	PREFIX:{pauses}:holding          set of the SELECTORs that hold jobs
//	PREFIX:{pauses}:held:SELECTOR    sorted set of those, "QUEUE ID", by acceptance
//	PREFIX:{pauses}:waking:SELECTOR  sorted set of those of them that a worker wakes,
//	                                 by until when nobody else does
//
// A SELECTOR is [app, platform, category] in JSON.
type Holds struct {
	client        redis.UniversalClient
	prefix        string
	holds, holder string
}

// NewHolds returns the holds under the prefix, "pushpace" when it is empty.
func NewHolds(client redis.UniversalClient, prefix string) *Holds {
	return &Holds{client, prefix, pausesKey(prefix, "operators"), pausesKey(prefix, "holding")}
}

//go:embed holds.lua
var holdsSource string

var holdsScript = redis.NewScript(holdsSource)

func (h *Holds) run(ctx context.Context, op, selector string, args ...any) *redis.Cmd {
	keys := []string{h.holds, h.holder, pausesKey(h.prefix, "held:"+selector), pausesKey(h.prefix, "waking:"+selector)}
	return holdsScript.Run(ctx, h.client, keys, append([]any{op, selector}, args...)...)
}

// Begin has all workers hold what the hold matches, from now on, or changes the
// end and the reason of the one that matches the same. At is not looked at. It
// answers push.Faults, ErrHoldOver or ErrTooManyHolds for what cannot begin.
func (h *Holds) Begin(ctx context.Context, hold Hold) error {
	if err := hold.Validate(); err != nil {
		return err
	}
	until := int64(0)
	if !hold.Until.IsZero() {
		until = max(1, hold.Until.UnixMilli())
	}
	note, err := json.Marshal(holdNote{By: hold.By, Reason: hold.Reason})
	if err != nil {
		return err
	}
	begun, err := h.run(ctx, "begin", hold.selector().field(), strconv.FormatInt(until, 10), note, maxHolds).Int()
	switch {
	case err != nil:
		return fmt.Errorf("begin a pause: %w", err)
	case begun == -1:
		return ErrHoldOver
	case begun == -2:
		return ErrTooManyHolds
	}
	return nil
}

// End ends the hold that matches the same, and answers whether there was one.
// What it held comes back within seconds. Of the hold, By is who ends it, for the
// workers' logs. It answers push.Faults for what cannot be one.
func (h *Holds) End(ctx context.Context, hold Hold) (bool, error) {
	if err := hold.Validate(); err != nil {
		return false, err
	}
	note, err := json.Marshal(holdNote{EndedBy: hold.By})
	if err != nil {
		return false, err
	}
	ended, err := h.run(ctx, "end", hold.selector().field(), note).Int()
	if err != nil {
		return false, fmt.Errorf("end a pause: %w", err)
	}
	return ended == 1, nil
}

// Validate reports everything that is wrong with the hold, as push.Faults.
func (h *Hold) Validate() error {
	var faults push.Faults
	for _, text := range []struct {
		field, value string
		most         int
	}{
		{"/app", h.App, push.MaxNameBytes}, {"/category", h.Category, push.MaxNameBytes},
		{"/by", h.By, push.MaxNameBytes}, {"/reason", h.Reason, maxReasonBytes},
	} {
		if len(text.value) > text.most || !utf8.ValidString(text.value) || strings.ContainsFunc(text.value, unicode.IsControl) {
			faults = append(faults, push.Fault{Field: text.field, Problem: fmt.Sprintf("must be UTF-8 without control characters, of at most %d bytes", text.most)})
		}
	}
	if h.Platform != "" && h.Platform != push.APNs && h.Platform != push.FCM {
		faults = append(faults, push.Fault{Field: "/platform", Problem: fmt.Sprintf("must be %s or %s", push.APNs, push.FCM)})
	}
	if len(faults) > 0 {
		return faults
	}
	return nil
}

// holdNote is what of a hold Redis has no use for.
type holdNote struct {
	By      string `json:"by,omitempty"`
	Reason  string `json:"reason,omitempty"`
	EndedBy string `json:"ended_by,omitempty"`
}

// readHold reads an entry of the hash.
func readHold(field, value string) (Hold, error) {
	var at selector
	parts := strings.SplitN(value, " ", 3)
	if err := json.Unmarshal([]byte(field), (*[3]string)(&at)); err != nil || len(parts) != 3 {
		return Hold{}, errPause
	}
	ends, err1 := strconv.ParseInt(parts[0], 10, 64)
	begun, err2 := strconv.ParseInt(parts[1], 10, 64)
	var note holdNote
	notes := json.NewDecoder(strings.NewReader(parts[2]))
	for err1 == nil && notes.More() {
		err1 = notes.Decode(&note)
	}
	if err1 != nil || err2 != nil {
		return Hold{}, errPause
	}
	h := Hold{App: at[0], Platform: push.Platform(at[1]), Category: at[2], By: note.By, Reason: note.Reason, endedBy: note.EndedBy, At: time.UnixMilli(begun).UTC()}
	if ends != 0 {
		h.Until = time.UnixMilli(ends).UTC()
	}
	return h, nil
}

// A selector is what a hold matches: the app, the platform and the category, ""
// for any.
type selector [3]string

func (h *Hold) selector() selector { return selector{h.App, string(h.Platform), h.Category} }

// field is the selector as Redis has it.
func (s selector) field() string {
	text, _ := json.Marshal(s) // of three strings, which never fails
	return string(text)
}

// A heldJob is a job on the queue that comes back when a hold ends. The queue is ""
// when it is not known.
type heldJob struct{ queue, id string }

const (
	// heldLives is how long it is remembered what a hold keeps, after the last job
	// that came back to look: longer than any stays away.
	heldLives = 2 * time.Hour
	// wakingTime is for how long nobody else wakes a job that was taken. One that
	// was not woken, as its worker crashed or a worker had it in hand, is taken again.
	wakingTime = time.Second
)

// keep remembers jobs that come back when the hold ends, among the others by when
// the first of them was accepted.
func (h *Holds) keep(ctx context.Context, selector string, accepted time.Time, jobs ...heldJob) error {
	args := append([]any{heldLives.Milliseconds(), accepted.UnixMilli()}, fields(jobs)...)
	if err := h.run(ctx, "keep", selector, args...).Err(); err != nil {
		return fmt.Errorf("remember what is paused: %w", err)
	}
	return nil
}

// fields are jobs as Redis has them.
func fields(jobs []heldJob) []any {
	fields := make([]any, len(jobs))
	for i, job := range jobs {
		fields[i] = job.queue + " " + job.id
	}
	return fields
}

// take answers so many of the jobs that the hold keeps and nobody wakes, the
// first accepted first.
func (h *Holds) take(ctx context.Context, selector string, most int) ([]heldJob, error) {
	reply, err := h.run(ctx, "take", selector, heldLives.Milliseconds(), most, wakingTime.Milliseconds()).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("take up what was paused: %w", err)
	}
	jobs := make([]heldJob, len(reply))
	for i := range reply {
		jobs[i].queue, jobs[i].id, _ = strings.Cut(reply[i], " ")
	}
	return jobs, nil
}

// woken forgets jobs that were taken.
func (h *Holds) woken(ctx context.Context, selector string, jobs []heldJob) error {
	if len(jobs) == 0 {
		return nil
	}
	if err := h.run(ctx, "woken", selector, fields(jobs)...).Err(); err != nil {
		return fmt.Errorf("forget what was paused: %w", err)
	}
	return nil
}
