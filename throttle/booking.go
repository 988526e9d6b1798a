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
)

// slotless is the script's status of one that is deferred without a slot.
const slotless = 4

// A denial is what is known of the claim that was denied. The zero value is none.
type denial struct {
	stamp int64 // its score
	alone bool  // nothing waited
}

// visit runs the script, with the other whose slot is inherited, if any. It reports
// whether there are slots that are still to be given again.
func (l *Redis) visit(ctx context.Context, op string, r *Request, user *userState, claim denial, other string) (d Decision, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	k := &user.keys
	general, own := r.policies()
	l.trips.Add(1)
	reply, err := l.booking.Run(ctx, l.client, k.all(),
		op, member(r.ID), r.ID, claim.stamp, claim.alone, r.Wait.Microseconds(), r.Horizon.Microseconds(), l.keep, l.life(),
		r.MaxBooked, r.Returned, r.accepted(), general.words(), own.words(), k.category, other, r.Report).Slice()
	if err != nil {
		return d, false, StoreError(op, err)
	}
	return l.read(r, user, reply)
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

// read makes a Decision of the script's reply: status, now, instant, scope (1 the
// general, 2 the category's) and rule (from 1) that let it be no earlier, the slot
// before, whether a claim would be in vain, whether slots are still to be given again,
// of how many rates a report was asked for; how many each rate's window holds; then ID
// and slot of each that came forward.
func (l *Redis) read(r *Request, user *userState, reply []any) (d Decision, more bool, err error) {
	const length = 9
	var head [length]int64
	if len(reply) < length {
		return d, false, errReply
	}
	for i := range head {
		if head[i], err = integer(reply[i]); err != nil {
			return d, false, err
		}
	}
	status, now, instant := head[0], head[1], head[2]
	reply = reply[length:]
	if int(head[8]) > len(reply) {
		return d, false, errReply
	}
	d = Decision{Status: Status(status), At: time.UnixMicro(instant)}
	if status == slotless {
		d.Status, d.Full = Deferred, true
	}
	if head[5] > 0 {
		d.Slot = time.UnixMicro(head[5])
	}
	if instant > now {
		d.Left = time.Duration(instant-now) * time.Microsecond
		switch general, own := r.policies(); head[3] {
		case 1:
			d.Scope, d.Rule = General, general.ruleName(int(head[4])-1)
		case 2:
			d.Scope, d.Rule = r.class(), own.ruleName(int(head[4])-1)
		}
	}
	if head[6] > 0 {
		user.waitsUntil(l.elapsed() + nearHint)
	}
	if r.Report {
		var counts []int
		for _, field := range reply[:head[8]] {
			n, _ := field.(int64)
			counts = append(counts, int(n))
		}
		d.Remaining = r.remaining(counts)
	}
	for reply = reply[head[8]:]; len(reply) > 1; reply = reply[2:] {
		id, _ := reply[0].(string)
		slot, err := integer(reply[1])
		if err != nil {
			return d, false, err
		}
		d.Moved = append(d.Moved, Booking{ID: id, Slot: time.UnixMicro(slot)})
	}
	return d, head[7] > 0, nil
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
