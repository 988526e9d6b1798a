package throttle

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// The waiting of a user's notifications is one script, because it has to branch.
//
// A job that is denied gets a slot of its own. One that waits for the general
// limits stands in "booked", whatever its category; one that waits for its
// category's limits stands in that category's "line", and holds nobody else
// back. The general limits reserve a place for each of them, at the slot that both
// scopes agree on, which later ones go around. A newcomer goes behind all who wait
// in its scopes. A job that comes back for its slot has only to fit among those
// sent; when it does not (it is late, a limit was lowered) its whole line moves
// back in the order it has, and when the head of a line stands later than it needs
// to (a limit was raised, somebody gave up), the line moves forward.
//
//go:embed line.lua
var lineSource string

var lineScript = redis.NewScript(lineSource)

// The operations of the script.
const (
	opAcquire    = "acquire"
	opPeek       = "peek"
	opCancel     = "cancel"
	opLeave      = "leave" // cancel, but that an admission stays
	opReschedule = "reschedule"
	opLine       = "line" // what is left of reschedule: the category's line
)

// noRoom is the script's status of one who is deferred without a slot.
const noRoom = 4

// slack is how much later than it needs a line may stand before it is moved, in µs.
const slack = 20_000

// brief is by how much a booked job may be short for its category, in µs, and
// keep its place among those who wait for the general limits.
const brief = 50_000

// waking is how long it may take until somebody who comes forward is awake, in
// µs, where the caller's Request.Wait is not shorter.
const waking = 1_000_000

// reach is how many of a line come forward for one who gives up, so that a cancel
// costs little, however long the line is: fewer where a rate counts many, among
// whom each place is looked for.
func (r *Request) reach() int {
	const most, least, work = 500, 8, 50_000
	count := 1
	for _, s := range r.Scopes {
		for _, rate := range s.Policy.Rates {
			count = max(count, rate.Count)
		}
	}
	return max(least, min(most, work/count))
}

// fitSteps bounds the search for a place among others. What is not found by then
// is a place that does not hold, and its job is put off again when it comes.
const fitSteps = 256

// A denial is what is known of the claim that was denied. The zero value is none.
type denial struct {
	stamp int64 // its score
	alone bool  // nobody waited
}

// visit runs the script.
func (l *Redis) visit(ctx context.Context, op string, r *Request, k *keys, claim denial) (Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	names := make([]string, 0, 7)
	names = append(names, k.reserved, k.beyond)
	args := make([]any, 0, 32)
	args = append(args, op, member(r.ID), r.ID, claim.stamp, claim.alone, r.Wait.Microseconds(), r.Horizon.Microseconds(),
		l.keep, l.life(), int64(slack), int64(brief), fitSteps, int64(waking), r.reach(), r.MaxBooked, r.Returned)
	if g := r.general(); g != nil {
		names = append(names, k.sent, k.booked)
		args = g.Policy.appendArgs(args)
	} else {
		args = append(args, 0)
	}
	if c := r.category(); c != nil {
		names = append(names, k.catSent, k.catBooked, k.line)
		args = c.Policy.appendArgs(args)
	} else {
		args = append(args, 0)
	}
	l.trips.Add(1)
	reply, err := lineScript.Run(ctx, l.client, names, args...).Slice()
	if err != nil {
		return Decision{}, StoreError(op, err)
	}
	return readVisit(r, reply)
}

func (p Policy) appendArgs(args []any) []any {
	rules, kind := p.appendRules(nil), 1
	if p.Exempt {
		kind = 2
	}
	args = append(args, kind, p.margin(), len(rules))
	for _, r := range rules {
		args = append(args, r.n, r.period)
	}
	return args
}

// readVisit makes a Decision of the script's reply: status, now, instant, scope
// (1 the general, 2 the category's) and rule (from 1), then who came forward: ID,
// slot and scope of each.
func readVisit(r *Request, reply []any) (Decision, error) {
	var head [6]int64
	if len(reply) < len(head) {
		return Decision{}, fmt.Errorf("throttle: the script answered %d fields", len(reply))
	}
	for i := range head {
		n, ok := reply[i].(int64)
		if !ok {
			return Decision{}, fmt.Errorf("throttle: the script answered a %T as field %d", reply[i], i)
		}
		head[i] = n
	}
	now, instant := head[1], head[2]
	d := Decision{Status: Status(head[0]), At: time.UnixMicro(instant)}
	if head[0] == noRoom {
		d.Status, d.Full = Deferred, true
	}
	if head[5] > 0 {
		d.Slot = time.UnixMicro(head[5])
	}
	if instant > now {
		d.Left = time.Duration(instant-now) * time.Microsecond
		if scope := r.scope(head[3]); scope != nil && head[4] > 0 {
			d.Scope, d.Rule = scope.Name, scope.Policy.ruleName(int(head[4])-1)
		}
	}
	for i := len(head); i+2 < len(reply); i += 3 {
		id, _ := reply[i].(string)
		at, _ := reply[i+1].(string)
		which, _ := reply[i+2].(int64)
		slot, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return Decision{}, fmt.Errorf("throttle: the script answered a slot that is no number: %w", err)
		}
		booking := Booking{ID: id, Slot: time.UnixMicro(slot)}
		if scope := r.scope(which); scope != nil {
			booking.Scope = scope.Name
		}
		d.Moved = append(d.Moved, booking)
	}
	return d, nil
}

// scope answers the request's scope as the script names it: 1 the general one,
// 2 the category's.
func (r *Request) scope(which int64) *Scope {
	if which == 2 {
		return r.category()
	}
	return r.general()
}

// inheritSource moves one notification's place in each line to another, unless
// that has an earlier one. The sets' expiry stays: they are never empty.
//
// KEYS  reserved, booked and, of the category, booked and line
// ARGV  the ID that has the place, the ID that gets it
const inheritSource = `
for _, line in ipairs(KEYS) do
  local slot = redis.call('ZSCORE', line, ARGV[1])
  if slot then
    local own = redis.call('ZSCORE', line, ARGV[2])
    if not own or tonumber(slot) < tonumber(own) then redis.call('ZADD', line, slot, ARGV[2]) end
    redis.call('ZREM', line, ARGV[1])
  end
end
return 0`

var inheritScript = redis.NewScript(inheritSource)

// Inherit implements Limiter.
func (l *Redis) Inherit(ctx context.Context, r Request, from string) error {
	if err := r.validateHeir(from); err != nil || len(r.Scopes) == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	k := &l.user(&r).keys
	lines := []string{k.reserved}
	if r.general() != nil {
		lines = append(lines, k.booked)
	}
	if r.category() != nil {
		lines = append(lines, k.catBooked, k.line)
	}
	l.trips.Add(1)
	if err := inheritScript.Run(ctx, l.client, lines, from, r.ID).Err(); err != nil {
		return StoreError("inherit", err)
	}
	return nil
}
