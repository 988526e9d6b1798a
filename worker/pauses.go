package worker

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// A Pause keeps all workers from sending on behalf of one app to one platform,
// because of what its provider answers: operators' pauses are Holds. What waits
// for it is kept on the queue.
type Pause struct {
	App      string        `json:"app"`
	Platform push.Platform `json:"platform"`
	// Reason is why, from a closed set, and Error what the provider answered.
	Reason providers.Reason `json:"reason"`
	Error  string           `json:"error,omitempty"`
	// Until is when it ends, on the local clock; zero when it has no end.
	Until time.Time `json:"until,omitzero"`
	// level counts the pauses for misconfiguration in a row, this one included.
	level int
	// credential is the fingerprint of what it is about: it does not concern who
	// has other credentials. "" concerns everyone.
	credential string
	// claim is the host whose workers alone say so, which nobody else believes; ""
	// when it is borne out.
	claim string
}

// Pauses are shared by all workers, in two hashes:
//
//	PREFIX:{pauses}:providers    by APP/PLATFORM, or APP/PLATFORM/CREDENTIAL: "END
//	                             LEVEL CLAIM REASON ERROR", END in Unix ms of Redis's
//	                             clock, 0 when it has none, CLAIM a worker's host or *
//	PREFIX:{pauses}:resumed      by APP/PLATFORM: "AT BY" of who had it tried again
//
// The first lives no longer than the last of them, the second for a minute.
type Pauses struct {
	client redis.UniversalClient
	keys   []string // its own, and what Holds keep beside it
	host   string   // of the worker that they are of; "" for none
	// ahead is by how much Redis's clock is for certain, in ns; negative behind.
	ahead atomic.Int64
}

// NewPauses returns the pauses under the prefix, "pushpace" when it is empty.
func NewPauses(client redis.UniversalClient, prefix string) *Pauses {
	keys := []string{"providers", "operators", "holding", "resumed"}
	for i := range keys {
		keys[i] = pausesKey(prefix, keys[i])
	}
	return &Pauses{client: client, keys: keys}
}

// pausesKey is a key of the pauses, which share a hash tag.
func pausesKey(prefix, name string) string {
	if prefix == "" {
		prefix = "pushpace"
	}
	return prefix + ":{pauses}:" + name
}

//go:embed pauses.lua
var pausesSource string

var pausesScript = redis.NewScript(pausesSource)

// shared is what keeps all workers from sending.
type shared struct {
	pauses []Pause
	holds  []Hold
	ended  []Hold // not long ago, by somebody
	// holding are the selectors of holds, in force or not, that hold jobs.
	holding []string
	// resumed tells by APP/PLATFORM of the operators who have ended pauses of late.
	resumed map[string]resumption
	// unread are the fields of what is not of this version, and has no effect.
	unread []string
}

// A resumption is that an operator has had a provider tried again.
type resumption struct {
	at int64 // Unix ms of Redis's clock
	by string
}

// read reads everything in one round trip.
func (p *Pauses) read(ctx context.Context) (all shared, err error) {
	asked := time.Now()
	reply, err := pausesScript.Run(ctx, p.client, p.keys).Slice()
	if err != nil {
		return all, fmt.Errorf("list the pauses: %w", err)
	}
	now, _ := reply[0].(int64)
	p.ahead.Store(int64(aheadBy(time.UnixMilli(now), asked, time.Now())))
	all.resumed = map[string]resumption{}
	all.each(reply[1], func(field, value string) error {
		pause, left, err := readPause(field, value, now)
		if err != nil || left < 0 {
			return err
		}
		if left > 0 {
			pause.Until = asked.Add(left)
		}
		all.pauses = append(all.pauses, pause)
		return nil
	})
	all.each(reply[2], func(field, value string) error {
		hold, err := readHold(field, value)
		if err != nil {
			return err
		}
		if left := hold.Until.UnixMilli() - now; hold.Until.IsZero() || left > 0 {
			hold.over = asked.Add(time.Duration(left) * time.Millisecond)
			all.holds = append(all.holds, hold)
		} else if hold.endedBy != "" {
			all.ended = append(all.ended, hold)
		}
		return nil
	})
	all.each(reply[4], func(field, value string) error {
		at, by, _ := strings.Cut(value, " ")
		ms, err := strconv.ParseInt(at, 10, 64)
		if err == nil {
			all.resumed[field] = resumption{ms, by}
		}
		return err
	})
	holding, _ := reply[3].([]any)
	for _, selector := range holding {
		all.holding = append(all.holding, fmt.Sprint(selector))
	}
	slices.SortFunc(all.pauses, func(a, b Pause) int { return strings.Compare(a.field(), b.field()) })
	slices.SortFunc(all.holds, func(a, b Hold) int { return strings.Compare(a.selector().field(), b.selector().field()) })
	return all, nil
}

// aheadBy is by how much another clock is ahead of this machine's, negative when
// behind, at least: it showed now at some instant of a round trip.
func aheadBy(now, asked, answered time.Time) time.Duration {
	switch {
	case now.After(answered):
		return now.Sub(answered)
	case now.Before(asked):
		return now.Sub(asked)
	}
	return 0
}

// each reads each field of a hash, and notes those that cannot be read.
func (all *shared) each(hash any, read func(field, value string) error) {
	fields, _ := hash.([]any)
	for i := 0; i+1 < len(fields); i += 2 {
		field, _ := fields[i].(string)
		value, _ := fields[i+1].(string)
		if read(field, value) != nil {
			all.unread = append(all.unread, field)
		}
	}
}

var errPause = errors.New("an entry is not one of this version")

// readPause reads an entry of the hash. left is negative when the pause is over,
// and 0 when it has no end.
func readPause(field, value string, now int64) (p Pause, left time.Duration, err error) {
	parts := strings.SplitN(value, " ", 5)
	if len(parts) != 5 || !p.readField(field) {
		return p, 0, errPause
	}
	ends, err1 := strconv.ParseInt(parts[0], 10, 64)
	level, err2 := strconv.Atoi(parts[1])
	if err1 != nil || err2 != nil {
		return p, 0, errPause
	}
	p.level, p.claim, p.Reason, p.Error = level, parts[2], providers.Reason(parts[3]), parts[4]
	if p.claim == borneOut {
		p.claim = ""
	}
	if ends == 0 {
		return p, 0, nil
	}
	if left = time.Duration(ends-now) * time.Millisecond; left <= 0 {
		left = -1
	}
	return p, left, nil
}

// borneOut is in the place of a claim.
const borneOut = "*"

func (p *Pause) route() string { return p.App + "/" + string(p.Platform) }

func (p *Pause) field() string {
	if p.credential == "" {
		return p.route()
	}
	return p.route() + "/" + p.credential
}

// readField reads what field has written. No fingerprint is a platform's name.
func (p *Pause) readField(field string) bool {
	route, last, ok := cutLast(field)
	if platform := push.Platform(last); platform != push.APNs && platform != push.FCM {
		p.credential = last
		route, last, ok = cutLast(route)
	}
	p.App, p.Platform = route, push.Platform(last)
	return ok
}

func cutLast(s string) (before, last string, ok bool) {
	if i := strings.LastIndexByte(s, '/'); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

// begun is what became of a pause that was to begin.
type begun int

const (
	stands  begun = iota // a longer one does
	shares               // all workers keep to it
	unheard              // nobody does, until a worker on another host says the same
)

// begin has all workers pause whom the pause concerns, unless a longer one
// stands. A claim is believed when a worker on another host makes it too: those of
// one host, and a worker that has started again, have the same files and clock.
func (p *Pauses) begin(ctx context.Context, pause Pause) (begun, error) {
	length := int64(0)
	if !pause.Until.IsZero() {
		length = max(1, time.Until(pause.Until).Milliseconds())
	}
	claim := cmp.Or(pause.claim, borneOut)
	set, err := pausesScript.Run(ctx, p.client, p.keys, "begin", pause.field(), length, pause.level, claim, string(pause.Reason), pause.Error).Int()
	if err != nil {
		return stands, fmt.Errorf("share a pause: %w", err)
	}
	return begun(set), nil
}

// resume ends every pause of the routes, APP/PLATFORM each, and has all workers
// try them again within a second.
func (p *Pauses) resume(ctx context.Context, by string, routes []string) error {
	args := []any{"resume", by}
	for _, route := range routes {
		args = append(args, route)
	}
	if err := pausesScript.Run(ctx, p.client, p.keys, args...).Err(); err != nil {
		return fmt.Errorf("end a provider's pause: %w", err)
	}
	return nil
}
