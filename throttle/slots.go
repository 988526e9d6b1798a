package throttle

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/acknowledged"
)

//go:embed slots.lua
var slotsSource string

var slotsScript = acknowledged.Reader(redis.NewScript(slotsSource), opDryRun)

// The operations of the script.
const (
	opAcquire = "acquire"
	opLeave   = "leave"
	opReplan  = "replan"
	opDryRun  = "dry_run"
)

// A call is the script's argument: times and periods in µs.
type call struct {
	op         string
	Lines      []lineArgs         `json:"lines"`
	All        []notificationArgs `json:"all"`     // empty for replan
	Claim      int64              `json:"claim"`   // score of the denied claim, or 0
	Entered    int64              `json:"entered"` // when the claim was executed
	Keep       int64              `json:"keep"`
	Life       int64              `json:"life"`
	Most       int                `json:"most"` // most slots of a category
	Report     bool               `json:"report,omitempty"`
	AfterLeave bool               `json:"leaver,omitempty"`
}

// A lineArgs is a line of the call, with its scopes.
type lineArgs struct {
	Name     string      `json:"name"`
	Category string      `json:"category"` // prefix of the names of the category's lines
	Scopes   []scopeArgs `json:"scopes"`
	Closed   []int64     `json:"closed,omitempty"` // alternating FROM and UPTO
	Free     bool        `json:"free,omitempty"`   // the line has no limits
}

// A scopeArgs is a scope's policy and the entries that count in it.
type scopeArgs struct {
	Key    int     `json:"key"`   // index in KEYS of the scope's admissions
	Of     string  `json:"of"`    // prefix of the names of the scope's lines
	Rules  []int64 `json:"rules"` // alternating N and PERIOD, first the minimum gap
	Most   int     `json:"most"`  // the largest N
	Margin int64   `json:"margin"`
}

// sentKey is the index in KEYS of the user's admissions. The keys of the lines' categories
// follow.
const sentKey = 4

// A notificationArgs is a notification of the call.
type notificationArgs struct {
	Member      string `json:"member"`
	ID          string `json:"id"`
	Horizon     int64  `json:"horizon"`
	Replaces    string `json:"elder,omitempty"`
	IgnoreQuiet bool   `json:"passes,omitempty"`
	Kept        bool   `json:"kept,omitempty"`
	SlotOnly    bool   `json:"books,omitempty"`
	Used        bool   `json:"used,omitempty"`
}

// Line returns the line of the request. Its zone is empty without quiet hours.
func (r *Request) Line() Line {
	line := Line{Category: r.category()}
	if p, _ := r.quietPolicy(); p != nil && r.Zone != nil {
		line.Zone = r.Zone.String()
	}
	return line
}

// name returns the line's name in the script.
func (l Line) name() string { return Escape(l.Category) + " " + Escape(l.Zone) + " " }

// lineOf parses a member of slots: the line's name and the ID.
func lineOf(member string) (l Line, id string) {
	category, rest, _ := strings.Cut(member, " ")
	zone, id, _ := strings.Cut(rest, " ")
	l.Category, _ = url.PathUnescape(category)
	l.Zone, _ = url.PathUnescape(zone)
	return l, id
}

// lineArgs returns the arguments of a call's i-th line, with the request's scopes and zone.
func (r *Request) lineArgs(i int, line Line, now int64) lineArgs {
	general, own := r.policies()
	l := lineArgs{Name: line.name(), Category: Escape(line.Category) + " ", Scopes: []scopeArgs{}, Free: general.free() && own.free() || own.exempt()}
	for _, s := range r.Scopes {
		in := scopeArgs{Key: sentKey, Margin: s.Policy.margin()}
		if s.Name != General {
			in.Key, in.Of = sentKey+1+i, l.Category
		}
		for _, rule := range s.Policy.appendRules(nil) {
			in.Rules, in.Most = append(in.Rules, int64(rule.n), rule.period), max(in.Most, rule.n)
		}
		l.Scopes = append(l.Scopes, in)
	}
	for _, i := range r.closed(now) {
		l.Closed = append(l.Closed, i.from, i.upto)
	}
	return l
}

// free reports whether the policy limits nothing.
func (p *Policy) free() bool { return p == nil || p.Exempt || p.Unlimited() }

func (p *Policy) exempt() bool { return p != nil && p.Exempt }

// A deniedClaim identifies a denied claim. The zero value is none.
type deniedClaim struct {
	stamp   int64 // the claim's score
	entered int64 // when the claim was executed, on Redis's clock
}

// newCall returns the call for requests of one user; for replan each request is a line.
func (l *Redis) newCall(op string, all []Request) call {
	r, now := &all[0], l.now().UnixMicro()
	c := call{op: op, Keep: l.keep, Life: l.life(), Most: r.maxBooked(), Report: r.Report}
	if op == opReplan || op == opDryRun {
		for i := range all {
			line := Line{Category: all[i].category()}
			if in := all[i].Zone; in != nil {
				line.Zone = in.String() // even if the line no longer has quiet hours
			}
			c.Lines = append(c.Lines, all[i].lineArgs(i, line, now))
		}
		c.AfterLeave = r.AfterLeave
		return c
	}
	c.Lines = []lineArgs{r.lineArgs(0, r.Line(), now)}
	for i := range all {
		r := &all[i]
		c.All = append(c.All, notificationArgs{member(r.ID), r.ID, r.Horizon.Microseconds(), r.Replaces, r.IgnoreQuiet, r.NeverReject, r.SlotOnly, r.Used})
	}
	return c
}

// A slotsReply is the script's reply.
type slotsReply struct {
	now     int64
	waits   bool // a notification waits
	answers [][]int64
	moves   []Move
	FollowUp
}

// run runs the script.
func (l *Redis) run(ctx context.Context, c call, r *Request) (*slotsReply, error) {
	k := l.user(r).keys
	keys := []string{k.slots, k.early(), k.lines(), k.sent}
	for _, line := range c.Lines {
		keys = append(keys, k.base()+"sent:"+strings.TrimSuffix(line.Category, " "))
	}
	arg, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("throttle: %w", err)
	}
	reply, err := l.script(ctx, slotsScript, keys, c.op, string(arg)).Slice()
	if err != nil {
		return nil, WrapStoreError(c.op, err)
	}
	return read(c.Lines, reply)
}

// script runs a script in one round trip, or in two if Redis has not cached the script. Each round
// trip has its own timeout.
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

var errReply = errors.New("throttle: unexpected form of a Redis reply")

// read parses the script's reply to a call with these lines.
func read(lines []lineArgs, reply []any) (*slotsReply, error) {
	if len(reply) != 7 {
		return nil, errReply
	}
	now, err1 := integer(reply[0])
	waits, err2 := integer(reply[1])
	after, err3 := integer(reply[5])
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	s := &slotsReply{now: now, waits: waits > 0}
	s.After = time.Duration(after) * time.Microsecond
	for _, fields := range items(reply[2]) {
		answer := make([]int64, 0, len(items(fields)))
		for _, field := range items(fields) {
			n, err := integer(field)
			if err != nil {
				return nil, err
			}
			answer = append(answer, n)
		}
		s.answers = append(s.answers, answer)
	}
	for names := items(reply[3]); len(names) > 1; names = names[2:] {
		slot, err := integer(names[1])
		if err != nil {
			return nil, err
		}
		member, _ := names[0].(string)
		line, id := lineOf(member)
		s.Early = append(s.Early, Booking{ID: id, Slot: micros(slot), Category: line.Category, member: member})
	}
	for _, name := range items(reply[4]) {
		text, _ := name.(string)
		if !strings.Contains(text, ":") && !slices.ContainsFunc(lines, func(l lineArgs) bool { return l.Name == text }) {
			line, _ := lineOf(text)
			s.Others = append(s.Others, line)
		}
	}
	for _, fields := range items(reply[6]) {
		move := items(fields)
		if len(move) != 3 {
			return nil, errReply
		}
		from, err1 := integer(move[1])
		to, err2 := integer(move[2])
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		member, _ := move[0].(string)
		line, id := lineOf(member)
		m := Move{ID: id, Category: line.Category, From: micros(from), To: micros(to), Free: to == 0}
		if m.Free {
			m.To = micros(now)
		}
		s.moves = append(s.moves, m)
	}
	return s, nil
}

func items(field any) []any {
	list, _ := field.([]any)
	return list
}

// visit runs acquire for notifications of one line.
func (l *Redis) visit(ctx context.Context, all []Request, user *userState, claim deniedClaim) ([]Decision, error) {
	c := l.newCall(opAcquire, all)
	c.Claim, c.Entered = claim.stamp, claim.entered
	s, err := l.run(ctx, c, &all[0])
	if err != nil {
		return nil, err
	}
	if len(s.answers) != len(all) {
		return nil, errReply
	}
	decisions := make([]Decision, len(all))
	for i := range all {
		if decisions[i], err = decision(&all[i], s.now, s.answers[i]); err != nil {
			return nil, err
		}
		decisions[i].setQuiet(&all[i], all[i].closed(s.now))
	}
	decisions[0].FollowUp = s.FollowUp
	if s.waits {
		user.waitsUntil(l.elapsed() + time.Second.Microseconds()) // an earlier claim would probably be denied
	}
	return decisions, nil
}

// decision parses the script's answer about one notification.
func decision(r *Request, now int64, answer []int64) (d Decision, err error) {
	var first [5]int64 // the counts follow
	if copy(first[:], answer) < len(first) {
		return d, errReply
	}
	status, instant, scope, rule, slot := Status(first[0]), first[1], int(first[2]), int(first[3]), first[4]
	if scope > len(r.Scopes) {
		return d, errReply
	}
	d = Decision{Status: status, At: micros(instant), Now: micros(now)}
	if status == slotless {
		d.Status, d.Slotless = Deferred, true
	}
	if slot > 0 {
		d.Slot = micros(slot)
	}
	if instant > now && d.Status != Granted {
		d.Left = time.Duration(instant-now) * time.Microsecond
	}
	if scope > 0 {
		by := &r.Scopes[scope-1]
		d.Scope, d.Rule = by.Name, by.Policy.ruleName(rule-1)
	}
	if r.Report {
		var counts []int
		for _, n := range answer[len(first):] {
			counts = append(counts, int(n))
		}
		d.Remaining = r.remaining(counts)
	}
	return d, nil
}

// Cancel implements Limiter.
func (l *Redis) Cancel(ctx context.Context, r Request) (FollowUp, error) {
	return l.CancelAll(ctx, []Request{r})
}

// CancelAll implements Planner.
func (l *Redis) CancelAll(ctx context.Context, all []Request) (FollowUp, error) {
	if err := validateAll(all); err != nil {
		return FollowUp{}, err
	}
	placed, err := l.place(ctx, opLeave, all)
	if err == nil && len(all[0].Scopes) > 0 {
		l.user(&all[0]).waits.Store(0)
	}
	return placed, err
}

// Replan implements Planner.
func (l *Redis) Replan(ctx context.Context, all []Request) (FollowUp, error) {
	if err := validateLines(all); err != nil {
		return FollowUp{}, err
	}
	return l.place(ctx, opReplan, all)
}

// ClearEarly implements Planner.
func (l *Redis) ClearEarly(ctx context.Context, r Request, woken []Booking) error {
	r.ID = ""
	if err := r.validate(); err != nil || len(woken) == 0 {
		return err
	}
	members := make([]any, len(woken))
	for i, b := range woken {
		members[i] = b.member
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	l.trips.Add(1)
	if err := l.client.ZRem(ctx, l.user(&r).keys.early(), members...).Err(); err != nil {
		return WrapStoreError("told", err)
	}
	return nil
}

// place runs leave or replan.
func (l *Redis) place(ctx context.Context, op string, all []Request) (FollowUp, error) {
	r := &all[0]
	if op == opLeave && len(r.Scopes) == 0 {
		return FollowUp{}, nil
	}
	c := l.newCall(op, all)
	s, err := l.run(ctx, c, r)
	if err != nil {
		return FollowUp{}, err
	}
	l.user(r).kept.Store(0) // if the set is empty now, Redis has removed its expiry
	return s.FollowUp, nil
}

// A Move is the effect of a Replan on one waiting notification.
type Move struct {
	ID, Category string
	From, To     time.Time
	// Free means that the notification has no limits any more and is sent at once.
	Free bool
}

// A Plan is the preview of a Replan.
type Plan struct {
	Now   time.Time // on the limiter's clock
	Moves []Move    // of the requested lines, in each line's order
	// Others are the user's other lines with waiting notifications.
	Others []Line
}

// DryRun returns the effect of a Replan of the requests' lines without changing anything.
func (l *Redis) DryRun(ctx context.Context, all []Request) (Plan, error) {
	if err := validateLines(all); err != nil {
		return Plan{}, err
	}
	c := l.newCall(opDryRun, all)
	s, err := l.run(ctx, c, &all[0])
	if err != nil {
		return Plan{}, err
	}
	return Plan{micros(s.now), s.moves, s.Others}, nil
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
