package throttle

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Admissions are law, bookings are advice: the beginning of booking.lua says what
// that means, and how those who wait are kept. model.go tells the same rules
// plainly.
//
//go:embed booking.lua
var bookingSource string

var bookingScript = redis.NewScript(bookingSource)

// The operations of the script.
const (
	opAcquire    = "acquire"
	opPeek       = "peek"
	opCancel     = "cancel"
	opLeave      = "leave" // cancel, but that an admission stays
	opInherit    = "inherit"
	opReschedule = "reschedule"
	opProceed    = "proceed" // with what a reschedule has left
)

// slotless is the script's status of one that is deferred without a slot.
const slotless = 4

// A denial is what is known of the claim that was denied. The zero value is none.
type denial struct {
	stamp int64 // its score
	alone bool  // nothing waited
}

// visit runs the script for one notification, with the other whose slot is inherited, if
// any. It reports whether there are slots that are still to be given again.
func (l *Redis) visit(ctx context.Context, op string, r *Request, user *userState, claim denial, other string) (d Decision, more bool, err error) {
	all, more, err := l.visitAll(ctx, op, []Request{*r}, user, claim, other)
	if err != nil {
		return d, false, err
	}
	return all[0], more, nil
}

// visitAll runs the script for notifications with the scopes of the first one. It may
// decide of the first of them only.
func (l *Redis) visitAll(ctx context.Context, op string, all []Request, user *userState, claim denial, other string) (decisions []Decision, more bool, err error) {
	r, k := &all[0], &user.keys
	general, own := r.policies()
	const heads, fields = 11, 6
	args := append(make([]any, 0, heads+fields*len(all)),
		op, claim.stamp, claim.alone, l.keep, l.life(), r.MaxBooked, general.words(), own.words(), k.category, other, r.Report)
	for i := range all {
		r := &all[i]
		args = append(args, member(r.ID), r.ID, r.Wait.Microseconds(), r.Horizon.Microseconds(), r.Returned, r.accepted())
	}
	reply, err := l.script(ctx, l.booking, k.all(), args...).Slice()
	if err != nil {
		return nil, false, StoreError(op, err)
	}
	return l.read(r, user, reply)
}

// script runs a script in one round trip, or in two where Redis does not know it. The
// time-out is each one's own.
func (l *Redis) script(ctx context.Context, script *redis.Script, keys []string, args ...any) *redis.Cmd {
	trip := func(eval func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd) *redis.Cmd {
		ctx, cancel := context.WithTimeout(ctx, l.timeout)
		defer cancel()
		return eval(ctx, l.client, keys, args...)
	}
	l.trips.Add(1)
	cmd := trip(script.EvalSha)
	if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		cmd = trip(script.Eval)
	}
	return cmd
}

// words writes the policy as the script reads it: KIND MARGIN {N PERIOD}…, "" for nil.
func (p *Policy) words() string {
	if p == nil {
		return ""
	}
	b := []byte("1 ")
	if p.Exempt {
		b[0] = '2'
	}
	b = strconv.AppendInt(b, p.margin(), 10)
	for _, r := range p.appendRules(nil) {
		b = strconv.AppendInt(append(b, ' '), int64(r.n), 10)
		b = strconv.AppendInt(append(b, ' '), r.period, 10)
	}
	return string(b)
}

var errReply = errors.New("throttle: Redis gave a reply of another shape than asked for")

// read makes decisions of the script's reply; what came forward is in the first one.
func (l *Redis) read(r *Request, user *userState, reply []any) (decisions []Decision, more bool, err error) {
	const heads = 4
	if len(reply) <= heads {
		return nil, false, errReply
	}
	now, err := integer(reply[0])
	if err != nil {
		return nil, false, err
	}
	moved, _ := reply[3].([]any)
	decisions = make([]Decision, len(reply)-heads)
	for i, answer := range reply[heads:] {
		fields, _ := answer.([]any)
		if decisions[i], err = decision(r, now, fields); err != nil {
			return nil, false, err
		}
	}
	for ; len(moved) > 1; moved = moved[2:] {
		id, _ := moved[0].(string)
		slot, err := integer(moved[1])
		if err != nil {
			return nil, false, err
		}
		decisions[0].Moved = append(decisions[0].Moved, Booking{ID: id, Slot: time.UnixMicro(slot)})
	}
	if reply[1] != int64(0) {
		user.waitsUntil(l.elapsed() + nearHint)
	}
	return decisions, reply[2] != int64(0), nil
}

// decision reads the script's answer about one notification.
func decision(r *Request, now int64, answer []any) (d Decision, err error) {
	const length = 5
	var fields [length]int64
	if len(answer) < length {
		return d, errReply
	}
	for i := range fields {
		if fields[i], err = integer(answer[i]); err != nil {
			return d, err
		}
	}
	status, instant, scope, rule, slot := fields[0], fields[1], fields[2], fields[3], fields[4]
	d = Decision{Status: Status(status), At: time.UnixMicro(instant)}
	if status == slotless {
		d.Status, d.Full = Deferred, true
	}
	if slot > 0 {
		d.Slot = time.UnixMicro(slot)
	}
	if instant > now {
		d.Left = time.Duration(instant-now) * time.Microsecond
		switch general, own := r.policies(); scope {
		case 1:
			d.Scope, d.Rule = General, general.ruleName(int(rule)-1)
		case 2:
			d.Scope, d.Rule = r.class(), own.ruleName(int(rule)-1)
		}
	}
	if r.Report {
		counts := make([]int, 0, len(answer)-length)
		for _, field := range answer[length:] {
			n, _ := field.(int64)
			counts = append(counts, int(n))
		}
		d.Remaining = r.remaining(counts)
	}
	return d, nil
}

// nearHint is for how long, in µs, somebody is thought to wait after a visit has
// found somebody.
const nearHint = 1_000_000

func integer(field any) (int64, error) {
	switch v := field.(type) {
	case int64:
		return v, nil
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, errReply
}
