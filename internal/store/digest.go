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

var digestScript = redis.NewScript(settleSource + digestSource)

const (
	// digestLife is for how long a digest is kept beyond when its carrier is to come, which
	// sets it anew at each visit: no worker may be there for as long.
	digestLife = 90 * 24 * time.Hour
	// digestRest is for how long one is kept whose carrier has ended: another worker may
	// have that in hand still.
	digestRest = time.Hour
)

// A Digest is one of a user's, in the shard: those of its key that wait are told of in the
// push of one of them, its carrier.
type Digest struct {
	at   *Shard
	app  string
	name string
}

// Digest returns the digest of that key.
func (r *Shard) Digest(app, user, category, key string) Digest {
	return Digest{r, app, url.QueryEscape(app) + "/" + url.QueryEscape(user) + "/" + url.QueryEscape(category) + "/" + url.QueryEscape(key)}
}

// A Joiner is a notification as a digest keeps it.
type Joiner struct {
	ID       string
	Accepted time.Time
	Expires  time.Time // zero for never
	Title    string
	// JSON is the whole notification, and Targets are its own, nothing sent.
	JSON    []byte
	Targets []TargetOutcome
}

// Told is what the push of a digest's carrier tells of; the zero value is that nobody
// carries anything.
type Told struct {
	// IDs are those of all, the carrier's first, and Titles those of the first three.
	IDs, Titles []string
	// Newest is the JSON of the one that was accepted last.
	Newest []byte
	// Expires is when the last of them does; zero for never.
	Expires time.Time
	// Sealed says that nobody joins any more.
	Sealed bool
	// Ended says that the notification had ended when it was to be sealed: it may have
	// joined another one, in the hands of another worker.
	Ended bool
}

// Part is what a notification is to a digest after it has asked to join.
type Part struct {
	// Into is whom it has joined; it has ended then. "" for none.
	Into string
	// Carries says that it carries the digest: Told is what it tells of by now.
	Carries bool
	Told    Told
	// Ended says that it had ended before.
	Ended bool
	// full is the carrier that has no more room.
	full string
}

func (d Digest) run(ctx context.Context, op, id string, life time.Duration, args ...any) ([]string, error) {
	r := d.at
	keys := []string{r.Key("digest:" + d.name), r.Key("digested:" + id), r.Key("id:" + id)}
	if op == "join" {
		keys = append(keys, r.Key("counts"), r.Key("letters"))
		if r.tells() {
			keys = append(keys, r.Key(outcomesName))
		}
	}
	reply, err := digestScript.Run(ctx, r.client, keys, append([]any{op, id, life.Milliseconds()}, args...)...).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("digest: %s: %w", op, err)
	}
	return reply, nil
}

// Join has the notification join the digest, where one waits with room for it, and ends it
// as Digested in the same step. Where none does and carry says so, it carries the digest from
// now on, for the time that it waits. One that has gone on by itself does neither.
func (d Digest) Join(ctx context.Context, j *Joiner, carry bool, wait time.Duration, most int) (Part, error) {
	for {
		p, err := d.join(ctx, j, carry, wait, most)
		if err != nil || p.full == "" || !carry {
			return p, err
		}
		if _, err := d.Seal(ctx, p.full); err != nil { // the next ones are told of in another push
			return Part{}, err
		}
	}
}

func (d Digest) join(ctx context.Context, j *Joiner, carry bool, wait time.Duration, most int) (p Part, err error) {
	end, err := d.at.end(&End{State: Digested, Outcomes: j.Targets, App: d.app})
	if err != nil {
		return p, err
	}
	expires := int64(0)
	if !j.Expires.IsZero() {
		expires = max(1, j.Expires.UnixMilli())
	}
	args := append([]any{carry, most, j.Accepted.UnixMicro(), j.Title, expires, j.JSON, d.name, time.Now().UnixMilli(), d.at.retention.Milliseconds()}, end...)
	reply, err := d.run(ctx, "join", j.ID, wait+digestLife, args...)
	if err != nil {
		return p, err
	}
	switch reply[0] {
	case "joined":
		p.Into = reply[1]
	case "carries":
		p.Carries = true
		p.Told, err = readTold(reply)
	case "ended":
		p.Ended = true
	case "full":
		p.full = reply[1]
	}
	return p, err
}

// Look returns what the notification's push tells of, by now or once it was sealed, which
// changes nothing.
func (d Digest) Look(ctx context.Context, id string) (Told, error) { return d.told(ctx, "look", id) }

// Seal has nobody join the notification any more, and returns what its push tells of: every
// time the same. It comes before the push and before any end: one that has not sealed may be
// joined after it has ended.
func (d Digest) Seal(ctx context.Context, id string) (Told, error) { return d.told(ctx, "seal", id) }

func (d Digest) told(ctx context.Context, op, id string) (Told, error) {
	reply, err := d.run(ctx, op, id, digestLife)
	if err != nil {
		return Told{}, err
	}
	return readTold(reply)
}

func readTold(reply []string) (Told, error) {
	if reply[0] == "none" || reply[0] == "ended" {
		return Told{Ended: reply[0] == "ended"}, nil
	}
	fields := make(map[string]string, len(reply)/2)
	for i := 1; i+1 < len(reply); i += 2 {
		fields[reply[i]] = reply[i+1]
	}
	t := Told{IDs: strings.Split(fields["ids"], "\n"), Newest: []byte(fields["newest"]), Sealed: reply[0] == "sealed"}
	for i := range min(3, len(t.IDs)) {
		t.Titles = append(t.Titles, fields["t"+strconv.Itoa(i+1)])
	}
	if fields["expires"] != "0" {
		t.Expires = instant(fields["expires"])
	}
	return t, nil
}

// Forget lets go of what the notifications have sealed, once they have ended.
func (r *Shard) Forget(ctx context.Context, ids ...string) {
	if len(ids) == 0 {
		return
	}
	pipe := r.client.Pipeline()
	for _, id := range ids {
		pipe.PExpire(ctx, r.Key("digested:"+id), digestRest)
	}
	_, _ = pipe.Exec(ctx) // else it stays for digestLife
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

// closeDigest has nobody join any more what is to be taken from the queue. It refuses one
// that others have joined, unless those are to be lost with it.
func (r *Shard) closeDigest(ctx context.Context, id string, record *Record, others bool) error {
	if record.carries != "" {
		d := Digest{r, record.App, record.carries}
		told, err := d.Look(ctx, id)
		if err == nil && (others || len(told.IDs) <= 1) {
			told, err = d.Seal(ctx, id)
		}
		if err != nil {
			return err
		}
		record.Told = max(0, len(told.IDs)-1)
	}
	if record.Told > 0 && !others {
		return &CarriesError{record.Told}
	}
	return nil
}
