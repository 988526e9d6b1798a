package throttle

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Admissions are law, bookings are advice: the beginning of booking.lua says what
// that means, and how those who wait are kept. twin_test.go has the same rules
// in Go.
//
//go:embed booking.lua
var bookingSource string

var bookingScript = redis.NewScript(bookingSource)

// The operations of the script.
const (
	opAcquire    = "acquire"
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

// An ask is the script's argument: instants and periods in µs, limits as words.
type ask struct {
	Op         string   `json:"op"`
	Claim      int64    `json:"claim"` // the stamp of the claim that was denied, or 0
	Alone      bool     `json:"alone"` // nothing waited at the claim
	Keep       int64    `json:"keep"`
	Life       int64    `json:"life"`
	Most       int      `json:"most"` // so many may hold slots
	General    string   `json:"general"`
	Own        string   `json:"own"`        // the category's limits
	Categories []string `json:"categories"` // the request's, and others whose keys are given
	Other      string   `json:"other"`      // of which an heir inherits
	Report     bool     `json:"report"`
	All        []asked  `json:"all"`
	// with quiet hours, what is closed by them, and by the clocks of which zone
	Quiet    string  `json:"quiet,omitempty"`
	OwnQuiet *string `json:"ownQuiet,omitempty"` // nil where the general ones hold
	Zone     string  `json:"zone,omitempty"`
}

// An asked is one of the notifications.
type asked struct {
	Member   string `json:"member"`
	ID       string `json:"id"`
	Wait     int64  `json:"wait"`
	Horizon  int64  `json:"horizon"`
	Accepted int64  `json:"accepted"` // or 0
	Passes   bool   `json:"passes,omitempty"`
	Said     int64  `json:"said,omitempty"` // see Request.said
}

// visit runs the script for one notification, with the other whose slot is inherited, if
// any.
func (l *Redis) visit(ctx context.Context, op string, r *Request, user *userState, claim denial, other string) (d Decision, err error) {
	all, err := l.visitAll(ctx, op, []Request{*r}, user, claim, other)
	if err != nil {
		return d, err
	}
	return all[0], nil
}

// visitAll runs the script for notifications with the scopes of the first one. It may
// decide of the first of them only. Where others wait by the clocks of another zone the
// first one asks again by those.
func (l *Redis) visitAll(ctx context.Context, op string, all []Request, user *userState, claim denial, other string) (decisions []Decision, err error) {
	by := l.asking(op, all)
	decisions, zone, err := l.visitIn(ctx, by, op, all[:by.alike], user, claim, other)
	if zone != "" && err == nil {
		decisions, zone, err = l.visitIn(ctx, by.in(zone), op, all[:1], user, claim, other)
	}
	if zone != "" && err == nil {
		return nil, errZones
	}
	return decisions, err
}

// errZones means that those who wait have had another zone each time.
var errZones = errors.New("throttle: the time zone of those who wait changes; ask again")

// visitIn runs the script for notifications that ask by those quiet hours, and returns the
// zone by whose they have to ask, if they do. The script says when it needs the keys of other
// categories of which some wait too; the user's next calls give them at once.
func (l *Redis) visitIn(ctx context.Context, by hours, op string, all []Request, user *userState, claim denial, other string) (decisions []Decision, zone string, err error) {
	r, k := &all[0], &user.keys
	general, own := r.policies()
	a := ask{
		Op: op, Claim: claim.stamp, Alone: claim.alone, Keep: l.keep, Life: l.life(), Most: r.mostBooked(),
		General: general.words(), Own: own.words(), Other: other, Report: r.Report, All: make([]asked, len(all)),
		Zone: by.zone, Quiet: by.general.words(),
	}
	if by.own != nil {
		own := by.own.words()
		a.OwnQuiet = &own
	}
	for i := range all {
		r := &all[i]
		a.All[i] = asked{member(r.ID), r.ID, r.Wait.Microseconds(), r.Horizon.Microseconds(), r.accepted(), r.Passes && by.zone != "", by.said(r)}
	}
	err = user.withOthers(func(others []string) (lacks []string, err error) {
		a.Categories = append([]string{k.category}, others...)
		arg, err := json.Marshal(a)
		if err != nil {
			return nil, fmt.Errorf("throttle: %w", err)
		}
		reply, err := l.script(ctx, bookingScript, k.all(others), string(arg)).Slice()
		if err != nil {
			return nil, StoreError(op, err)
		}
		const told = 6 // with another's zone behind the others
		if len(reply) == told {
			zone, _ = reply[told-1].(string)
			return nil, nil
		}
		decisions, lacks, err = l.read(all, by, user, reply)
		return lacks, err
	})
	return decisions, zone, err
}

// withOthers calls f with the categories, besides the request's, of which some wait, as
// far as this process knows, and again while it lacks others.
func (u *userState) withOthers(f func(others []string) (lacks []string, err error)) error {
	var others []string
	if known := u.others.Load(); known != nil {
		others = *known
	}
	for {
		lacks, err := f(others)
		if err != nil || len(lacks) == 0 {
			return err
		}
		u.others.Store(&lacks)
		given := len(others)
		for _, name := range lacks {
			if !slices.Contains(others[:given], name) {
				others = append(others[:len(others):len(others)], name)
			}
		}
		if len(others) == given {
			return errReply
		}
	}
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

// read makes decisions of the script's reply; what came forward is in the first one. When
// there are none, it lacks the keys of those categories.
func (l *Redis) read(all []Request, by hours, user *userState, reply []any) (decisions []Decision, lacks []string, err error) {
	const length = 5
	if len(reply) != length {
		return nil, nil, errReply
	}
	now, err := integer(reply[0])
	if err != nil {
		return nil, nil, err
	}
	moved, _ := reply[2].([]any)
	answers, _ := reply[3].([]any)
	if len(answers) > len(all) {
		return nil, nil, errReply
	}
	if len(answers) == 0 {
		lacks, err := texts(reply[length-1:])
		return nil, lacks, err
	}
	decisions = make([]Decision, len(answers))
	for i, answer := range answers {
		fields, _ := answer.([]any)
		if decisions[i], err = decision(&all[0], now, fields); err != nil {
			return nil, nil, err
		}
		decisions[i].quietly(&all[i], by.holds())
	}
	for ; len(moved) > 1; moved = moved[2:] {
		id, _ := moved[0].(string)
		slot, err := integer(moved[1])
		if err != nil {
			return nil, nil, err
		}
		decisions[0].Moved = append(decisions[0].Moved, Booking{ID: id, Slot: time.UnixMicro(slot)})
	}
	if reply[1] != int64(0) {
		user.waitsUntil(l.elapsed() + nearHint)
	}
	return decisions, nil, nil
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
	d = Decision{Status: Status(status), At: time.UnixMicro(instant), Now: time.UnixMicro(now)}
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

// texts reads a list of texts, which the reply begins with.
func texts(reply []any) (all []string, err error) {
	if len(reply) == 0 {
		return nil, errReply
	}
	list, _ := reply[0].([]any)
	for _, one := range list {
		text, _ := one.(string)
		all = append(all, text)
	}
	return all, nil
}

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
