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

var digestScript = redis.NewScript(settleSource + handSource + digestSource)

// digestSpare is for how long a digest is open beyond its carrier's slot, as workers may be late.
const digestSpare = time.Hour

// A DigestOp is what a notification with a digest does.
type DigestOp string

const (
	// CloseDigest begins a visit: nobody joins the notification until it waits again.
	CloseDigest DigestOp = "close"
	// JoinDigest is CloseDigest, and joins another notification that waits.
	JoinDigest DigestOp = "join"
	// WaitInDigest joins another notification that waits, or lets others join this one, which
	// is about to wait. The job must not have failed: see digest.lua.
	WaitInDigest DigestOp = "wait"
)

// A Joiner is a notification with a digest, in a worker's hand. One push can tell of it and of
// others with its user, category and Key.
type Joiner struct {
	App, User, Category, Key string
	Job                      *Job
	Accepted                 time.Time
	Title                    string
	JSON                     []byte          // the whole notification; CloseDigest needs none
	Targets                  []TargetOutcome // nothing was sent to them
	Wait                     time.Duration   // until its slot, of WaitInDigest
	Most                     int             // notifications in one push
}

// A Part is the notification's part in a digest.
type Part struct {
	// Ended says that it had ended before.
	Ended bool
	// Into is the notification that it has joined; it has ended then. "" for none.
	Into string
	// Joined are the IDs of those that have joined it, and Titles the titles of the first two.
	Joined, Titles []string
	// Newest is the JSON of the one of them that was accepted last, at NewestAt.
	Newest   []byte
	NewestAt time.Time
}

// Digest does that step.
func (r *Shard) Digest(ctx context.Context, op DigestOp, j *Joiner) (p Part, err error) {
	end, err := r.end(&End{State: Digested, Outcomes: j.Targets, App: j.App})
	if err != nil {
		return p, err
	}
	name := url.QueryEscape(j.App) + "/" + url.QueryEscape(j.User) + "/" + url.QueryEscape(j.Category) + "/" + url.QueryEscape(j.Key)
	keys := []string{r.Key("digest:" + name), r.Key("id:" + j.Job.ID), r.QueueKey(j.Job.Queue, "t:"+j.Job.ID), r.Key("counts"), r.Key("letters")}
	if r.tells() {
		keys = append(keys, r.Key(outcomesName))
	}
	args := []any{
		string(op), j.Job.ID, j.Job.Hand, name, r.Key("id:"), (max(0, j.Wait) + digestSpare).Milliseconds(), j.Most,
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

// A CarriesError means that the notification's push is to tell of others too, which have
// ended.
type CarriesError struct{ Others int }

// Error implements error.
func (e *CarriesError) Error() string {
	if e.Others == 1 {
		return "it carries 1 other"
	}
	return fmt.Sprintf("it carries %d others", e.Others)
}
