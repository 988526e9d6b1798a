package push

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/base/fielderrors"
	"github.com/pushpace/pushpace/internal/base/strictjson"
	"github.com/pushpace/pushpace/internal/store"
)

// MaxEncodedSize bounds a notification's JSON form and a job's encoding, in bytes.
const MaxEncodedSize = store.MaxPayload

// A Job is an accepted notification on the queue.
type Job struct {
	// Notification has an ID. NotBefore and ExpiresAt replace NotBeforeLocal and TTL.
	Notification *Notification
	// AcceptedAt is the time at which the Producer accepted it. Required.
	AcceptedAt time.Time
	// Replay is true for a requeued dead letter.
	Replay bool
	// Digested are the IDs of the other notifications in its digest.
	Digested []string
}

// encodingVersion is the newest version. Decode reads all versions up to it. Encode writes the oldest
// version that can hold the job: version 1 has no digest and no Web Push, version 2 no FID. A new field
// of the notification or the envelope, and a new platform, needs a new version, as older builds reject
// unknown fields.
const encodingVersion = 3

// version returns the version of the job's encoding.
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

// envelope is the encoding of all versions.
type envelope struct {
	Version      int           `json:"v"`
	AcceptedAt   time.Time     `json:"accepted_at"`
	Replay       bool          `json:"replay,omitempty"`
	Digested     []string      `json:"digested,omitempty"`
	Only         string        `json:"only,omitempty"`
	Notification *Notification `json:"notification"`
}

// only returns APP/SERVICE for a job that waits for nothing but that route, and "" for any other job. In
// the encoding it precedes the notification, so that a script finds it without reading all of it.
func (j *Job) only() string {
	n := j.Notification
	if len(n.Targets) != 1 || j.Replay || n.CollapseKey != "" || n.Digest != nil || !n.NotBefore.IsZero() || !n.ExpiresAt.IsZero() {
		return ""
	}
	return n.App + "/" + string(n.Targets[0].Service())
}

// OnlyMark returns a text that is in the encoding of exactly the jobs that wait for nothing but the app's
// route to the push service. No content of a notification can contain it.
func OnlyMark(app string, service Platform) string {
	text, err := strictjson.Encode(app + "/" + string(service))
	if err != nil {
		return "" // strings have an encoding
	}
	return onlyBegins + strings.Trim(string(text), `"`) + onlyEnds
}

// UserMark returns the text that follows the notification's ID in the encodings of a user's jobs of
// that category. A script that searches for it first replaces escapes in the same way: \\ by 2, \" by 1.
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

// OnlyRoute returns the route in the payload's OnlyMark, JSON-encoded; "" without an OnlyMark.
func OnlyRoute(payload []byte) string {
	const within = 512 // it comes before the notification
	_, rest, _ := bytes.Cut(payload[:min(len(payload), within)], []byte(onlyBegins))
	route, _, marked := bytes.Cut(rest, []byte(onlyEnds))
	if !marked || bytes.IndexByte(route, '"') >= 0 {
		return ""
	}
	return string(route)
}

// The texts before and after the route in an OnlyMark.
const onlyBegins, onlyEnds = `,"only":"`, `","notification":{`

// Encode writes a job as a payload of the queue. It expects a notification that Validate
// accepts. Its error is of type Faults if the rest of the job is invalid or the payload too large.
func Encode(j *Job) ([]byte, error) {
	if f := j.faults(); len(f) > 0 {
		return nil, fmt.Errorf("encode a job: %w", f)
	}
	data, err := strictjson.Encode(envelope{j.version(), j.AcceptedAt.UTC(), j.Replay, j.Digested, j.only(), j.Notification})
	if err != nil {
		return nil, fmt.Errorf("encode a job: %w", err)
	}
	if len(data) > MaxEncodedSize {
		return nil, fmt.Errorf("encode a job: %w", fielderrors.New("", "is %d bytes, at most %d are taken", len(data), MaxEncodedSize))
	}
	return data, nil
}

// Decode reads a payload of the queue, of any version up to this build's. It trusts no producer:
// it rejects unknown fields and validates all except the rendered sizes, which rendering checks,
// and the time zone, which has a default. Its error is a *store.MalformedError.
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

// versionOf returns the payload's version, 0 if it has none. It first checks the position at which Encode
// writes the version.
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
		f.Add("/v", "is %d, but a part of the job needs a newer version", version)
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

// faults returns the faults of the job, without the result of Notification.faults.
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

// Unsent returns the outcomes of targets before the first push.
func Unsent(targets []Target) []store.TargetOutcome {
	outcomes := make([]store.TargetOutcome, len(targets))
	for i, t := range targets {
		outcomes[i] = store.TargetOutcome{Platform: t.Platform, TokenEnd: t.Hint()}
		if t.FID != "" {
			outcomes[i].TokenEnd, outcomes[i].FIDEnd = "", t.Hint()
		}
	}
	return outcomes
}

// Contents returns the facts that the store needs of a job that it takes from the queue.
func Contents(payload []byte) (store.Contents, error) {
	job, err := Decode(payload)
	if err != nil {
		return store.Contents{}, err
	}
	n := job.Notification
	return store.Contents{App: n.App, User: n.User, Category: n.Category, Targets: Unsent(n.Targets)}, nil
}
