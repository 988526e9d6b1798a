package push

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/base/faults"
	"github.com/pushpace/pushpace/internal/base/strictjson"
	"github.com/pushpace/pushpace/internal/store"
)

// MaxEncodedSize bounds a notification's JSON form and a job's encoding, in bytes.
const MaxEncodedSize = store.MaxPayload

// A Job is what travels on the queue: a notification that was accepted.
type Job struct {
	// Notification has an ID, and NotBefore and ExpiresAt in place of what stands for them.
	Notification *Notification
	// AcceptedAt is the instant at which the Producer accepted it. Required.
	AcceptedAt time.Time
	// Replay says that it comes back from the dead letters.
	Replay bool
	// Digested are the IDs of the others that the notification tells of.
	Digested []string
}

// encodingVersion is the newest version. Decode reads all versions up to it. Encode writes the
// oldest that can hold the job: version 1 has no digest and no Web Push, version 2 no FID.
// A new field of the notification or the envelope, and a new platform, needs a new version,
// as older builds reject unknown fields.
const encodingVersion = 3

// version is that of the job's encoding.
func (j *Job) version() int {
	n := j.Notification
	version := 1
	switch {
	case slices.ContainsFunc(n.Targets, func(t Target) bool { return t.FID != "" }):
		return 3
	case j.Digested != nil || n.Digest != nil:
		version = 2
	}
	for _, p := range platforms {
		if p.since > version && (len(*p.block(n)) > 0 || n.has(p.name)) {
			version = p.since
		}
	}
	return version
}

// envelope is that of all versions.
type envelope struct {
	Version      int           `json:"v"`
	AcceptedAt   time.Time     `json:"accepted_at"`
	Replay       bool          `json:"replay,omitempty"`
	Digested     []string      `json:"digested,omitempty"`
	Only         string        `json:"only,omitempty"`
	Notification *Notification `json:"notification"`
}

// only answers APP/SERVICE for a job of which nothing but that one provider's
// state decides whether it can be sent now, and "" for others. It stands before
// the notification, where a script finds it without reading the whole.
func (j *Job) only() string {
	n := j.Notification
	if len(n.Targets) != 1 || j.Replay || n.CollapseKey != "" || n.Digest != nil || !n.NotBefore.IsZero() || !n.ExpiresAt.IsZero() {
		return ""
	}
	return n.App + "/" + string(n.Targets[0].Service())
}

// OnlyMark is what the encodings have in them of the jobs that are for that
// app's push service only, and of which nothing else decides when they are sent. No
// content of a notification makes it appear.
func OnlyMark(app string, service Platform) string {
	text, err := strictjson.Encode(app + "/" + string(service))
	if err != nil {
		return "" // strings have an encoding
	}
	return onlyBegins + strings.Trim(string(text), `"`) + onlyEnds
}

// UserMark returns the text that follows the notification's ID in the encodings of a user's jobs of
// that category. A script that looks for it replaces escapes first, as it does: \\ by 2, \" by 1.
func UserMark(app, user, category string) string {
	text, err := strictjson.Encode(struct {
		App      string `json:"app"`
		User     string `json:"user"`
		Category string `json:"category,omitempty"`
	}{app, user, category})
	if err != nil {
		return "" // strings have an encoding
	}
	return strings.NewReplacer(`\\`, "\x02", `\"`, "\x01").Replace(strings.Trim(string(text), "{}\n"))
}

// OnlyRoute is what an OnlyMark in the payload names, in its encoding; "" where there is none.
func OnlyRoute(payload []byte) string {
	const within = 512 // it comes before the notification
	_, rest, _ := bytes.Cut(payload[:min(len(payload), within)], []byte(onlyBegins))
	route, _, marked := bytes.Cut(rest, []byte(onlyEnds))
	if !marked || bytes.IndexByte(route, '"') >= 0 {
		return ""
	}
	return string(route)
}

// What stands around the route in an OnlyMark.
const onlyBegins, onlyEnds = `,"only":"`, `","notification":{`

// Encode writes a job as a payload of the queue. It expects a notification that
// Validate accepts; what Decode would refuse about the rest of the job, or about
// its size, is an error of type Faults.
func Encode(j *Job) ([]byte, error) {
	if f := j.faults(); len(f) > 0 {
		return nil, fmt.Errorf("encode a job: %w", f)
	}
	data, err := strictjson.Encode(envelope{j.version(), j.AcceptedAt.UTC(), j.Replay, j.Digested, j.only(), j.Notification})
	if err != nil {
		return nil, fmt.Errorf("encode a job: %w", err)
	}
	if len(data) > MaxEncodedSize {
		return nil, fmt.Errorf("encode a job: %w", faults.New("", "is %d bytes, at most %d are taken", len(data), MaxEncodedSize))
	}
	return data, nil
}

// Decode reads a payload of the queue, of any version up to this build's. It
// trusts no producer: it is strict about fields and validates all but the
// rendered sizes, which rendering checks, and the time zone, for which there is
// another. Its error is a *store.MalformedError.
func Decode(data []byte) (*Job, error) {
	if len(data) > MaxEncodedSize {
		return nil, &store.MalformedError{Reason: store.MalformedSize}
	}
	version, err := versionOf(data)
	if err != nil {
		return nil, &store.MalformedError{Reason: store.MalformedJSON, Err: err}
	}
	switch version {
	case 1, 2, encodingVersion:
		return decode(data, version)
	case 0:
		return nil, &store.MalformedError{Reason: store.MalformedVersion}
	}
	return nil, &store.MalformedError{Reason: store.MalformedVersion, Err: fmt.Errorf("version %d; this build reads up to %d", version, encodingVersion)}
}

// versionOf returns the version that a payload names, 0 when it names none. It
// looks for the version where Encode writes it before it reads the whole.
func versionOf(data []byte) (int, error) {
	if rest, ok := bytes.CutPrefix(data, []byte(`{"v":`)); ok && len(rest) > 1 && '1' <= rest[0] && rest[0] <= '0'+encodingVersion && rest[1] == ',' {
		return int(rest[0] - '0'), nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return 0, strictjson.Misfits(data, new(envelope), err)
	}
	var version int
	if err := json.Unmarshal(members["v"], &version); err != nil {
		return 0, nil
	}
	return version, nil
}

func decode(data []byte, version int) (*Job, error) {
	var v envelope
	if err := strictjson.Decode(data, &v); err != nil {
		reason := store.MalformedNotification
		if !json.Valid(data) {
			reason = store.MalformedJSON
		}
		return nil, &store.MalformedError{Reason: reason, Err: strictjson.Misfits(data, &v, err)}
	}
	if v.Version != version {
		return nil, &store.MalformedError{Reason: store.MalformedVersion}
	}
	if err := strictjson.CheckCharacters(data); err != nil {
		return nil, &store.MalformedError{Reason: store.MalformedNotification, Err: err}
	}
	j := &Job{Notification: v.Notification, AcceptedAt: v.AcceptedAt.UTC(), Replay: v.Replay, Digested: v.Digested}
	f := j.faults()
	if j.Notification != nil && j.version() > version {
		f.Add("/v", "is %d, which does not know all that the job has", version)
	}
	if j.Notification != nil {
		for _, fault := range j.Notification.faults() {
			f.Add("/notification"+fault.Field, "%s", fault.Problem)
		}
	}
	if len(f) > 0 {
		return nil, &store.MalformedError{Reason: store.MalformedNotification, Err: f}
	}
	return j, nil
}

// faults are those of the job around a valid notification.
func (j *Job) faults() Faults {
	var f Faults
	if j.AcceptedAt.IsZero() {
		f.Add("/accepted_at", "is missing")
	}
	checkInstant(&f, "/accepted_at", j.AcceptedAt)
	if j.Notification == nil {
		f.Add("/notification", "is missing")
		return f
	}
	if j.Notification.ID == "" {
		f.Add("/notification/id", "is missing: the Producer generates one")
	}
	if j.Notification.TTL != 0 {
		f.Add("/notification/ttl", "must be turned into expires_at when the notification is accepted")
	}
	if j.Notification.NotBeforeLocal != "" {
		f.Add("/notification/not_before_local", "must be turned into not_before when the notification is accepted")
	}
	return f
}

// Unsent answers the outcomes of targets that nothing was sent to yet.
func Unsent(targets []Target) []store.TargetOutcome {
	outcomes := make([]store.TargetOutcome, len(targets))
	for i, t := range targets {
		outcomes[i] = store.TargetOutcome{Platform: t.Platform, TokenEnd: t.Hint()}
	}
	return outcomes
}

// Contents answers what the store has to know of a job that it takes from the queue.
func Contents(payload []byte) (store.Contents, error) {
	job, err := Decode(payload)
	if err != nil {
		return store.Contents{}, err
	}
	n := job.Notification
	return store.Contents{App: n.App, User: n.User, Category: n.Category, Targets: Unsent(n.Targets)}, nil
}
