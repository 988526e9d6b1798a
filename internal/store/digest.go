package store

import (
	"context"
	_ "embed"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed digest.lua
var digestSource string

var digestScript = redis.NewScript(settleSource + claimSource + digestSource)

// digestGrace is how long a digest stays open after its carrier's slot, as workers may be late.
const digestGrace = time.Hour

// A DigestOp is a step of a notification with a digest.
type DigestOp string

const (
	// CloseDigest is the first step of processing a carrier: no notification can join its digest
	// until it waits again.
	CloseDigest DigestOp = "close"
	// JoinDigest does CloseDigest, then joins the open digest of a waiting carrier.
	JoinDigest DigestOp = "join"
	// WaitInDigest does JoinDigest. If the notification has not joined, it opens its own digest, as
	// it is about to wait. The job must not have failed: see digest.lua.
	WaitInDigest DigestOp = "wait"
)

// A Joiner is a claimed notification with a digest. One push can include several notifications with
// the same user, category and Key.
type Joiner struct {
	App, User, Category, Key string
	Job                      *Job
	Accepted                 time.Time
	Title                    string
	JSON                     []byte          // the whole notification; nil for CloseDigest
	Targets                  []TargetOutcome // to which nothing was sent
	Wait                     time.Duration   // until its slot; WaitInDigest only
	Most                     int             // the most notifications in one push
}

// A Part is the state of a notification in its digest.
type Part struct {
	// Ended is true if the notification had already ended.
	Ended bool
	// Into is the ID of the carrier, if the notification has joined one and thereby ended;
	// otherwise "".
	Into string
	// Joined are the IDs of the notifications that have joined this one. Titles are the titles of
	// the first two.
	Joined, Titles []string
	// Newest is the JSON of the joined notification that was accepted last, at NewestAt.
	Newest   []byte
	NewestAt time.Time
}

// Digest executes the step.
func (r *Shard) Digest(ctx context.Context, op DigestOp, j *Joiner) (p Part, err error) {
	end, err := r.end(&End{State: Digested, Outcomes: j.Targets, App: j.App})
	if err != nil {
		return p, err
	}
	name := url.QueryEscape(j.App) + "/" + url.QueryEscape(j.User) + "/" + url.QueryEscape(j.Category) + "/" + url.QueryEscape(j.Key)
	keys := []string{r.Key("digest:" + name), r.Key("id:" + j.Job.ID), r.QueueKey(j.Job.Queue, "t:"+j.Job.ID), r.Key("counts"), r.Key("letters")}
	if r.reportsEnds() {
		keys = append(keys, r.Key(outcomesName))
	}
	args := []any{
		string(op), j.Job.ID, j.Job.Claim, name, r.Key("id:"), (max(0, j.Wait) + digestGrace).Milliseconds(), j.Most,
		j.Title, j.Accepted.UnixMicro(), j.JSON, time.Now().UnixMilli(), r.retention.Milliseconds(),
	}
	reply, err := digestScript.Run(ctx, r.client, keys, append(args, end...)...).Slice()
	if err != nil {
		return p, fmt.Errorf("digest: %s: %w", op, err)
	}
	text := func(i int) string { s, _ := reply[i].(string); return s }
	switch text(0) {
	case "ended":
		p.Ended = true
	case "joined":
		p.Into = text(1)
	case "told":
		if joined := text(1); joined != "" {
			p.Joined = strings.Split(joined, "\n")
			p.Titles = []string{text(2), text(3)}[:min(2, len(p.Joined))]
			at, _ := strconv.ParseInt(text(5), 10, 64)
			p.Newest, p.NewestAt = []byte(text(4)), time.UnixMicro(at)
		}
	}
	return p, nil
}

// A CarriesError means that the notification is a carrier: its push includes Others ended
// notifications.
type CarriesError struct{ Others int }

// Error implements error.
func (e *CarriesError) Error() string {
	if e.Others == 1 {
		return "it carries 1 other notification"
	}
	return fmt.Sprintf("it carries %d other notifications", e.Others)
}
