package throttle

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Line is those who wait of a user and what they wait behind, as it was read: what a
// Reschedule by the request would do with them can be asked of it, and nothing is
// written. It is asked once.
type Line struct {
	Now     time.Time // on the limiter's clock
	Waiting int       // how many wait, of whom the line has the nearest TimelineEntries

	request Request
	keep    int64
	model   *model
}

// A Move is what a Reschedule does with one that waits.
type Move struct {
	ID, Category string
	From, To     time.Time
	// Free says that nothing limits it any more: it goes at once.
	Free bool
}

// lineSource returns the clock, how many wait, the nearest of their slots, the hash of
// limits, the general admissions; then of each category that has any of the slots, and of
// the one that is asked for, its name, its queue and its admissions. Of the admissions
// those are enough that the longest rule counts, and those that are ahead.
//
// KEYS  limits
// ARGV  how many of those that wait, how many the request's rules count, how many
// admissions at most; whose slots: booked or booked:CAT; whose admissions: CAT, or * for
// all
const lineSource = `
local base, of = string.sub(KEYS[1], 1, -7), {}
local clock, fields = redis.call('TIME'), redis.call('HGETALL', KEYS[1])
local function entries(set, first, last)
  local list = redis.call('ZRANGE', base .. set, first, last, 'WITHSCORES')
  for i = 2, #list, 2 do list[i] = string.format('%.0f', tonumber(list[i])) end
  return list
end
local slots = entries(ARGV[4], 0, ARGV[1] - 1)
local count = tonumber(ARGV[2])
for i = 1, #fields, 2 do
  local rules = string.match(fields[i], '^[gc]') and string.match(fields[i + 1], '^%d+ %d+ (.*)$') or ''
  for n in string.gmatch(rules, '(%d+) %d+') do count = math.max(count, tonumber(n)) end
end
local now = clock[1] * 1000000 + clock[2]
local function sent(set)
  local ahead = redis.call('ZCOUNT', base .. set, now, '+inf')
  return entries(set, -math.min(count + ahead, ARGV[3]), -1)
end
for i = 1, #slots, 2 do
  local name = string.match(slots[i], '^[^ ]*')
  of[name] = (of[name] or 0) + 1
end
if ARGV[5] ~= '*' then of[ARGV[5]] = of[ARGV[5]] or 0 end
local reply = {now, redis.call('ZCARD', base .. 'booked'), slots, fields, sent('sent')}
for name, n in pairs(of) do
  local queue = n > 0 and redis.call('ZRANGE', base .. 'queue:' .. name, 0, n - 1) or {}
  reply[#reply + 1] = {name, queue, (ARGV[5] == '*' or ARGV[5] == name) and sent('sent:' .. name) or {}}
end
return reply`

var lineScript = redis.NewScript(lineSource)

// Line reads what a Reschedule of the request would work with. Of a rule that counts
// more than manyAdmissions it knows no more than these.
func (l *Redis) Line(ctx context.Context, r Request) (*Line, error) {
	r.ID = ""
	if err := r.validate(); err != nil {
		return nil, err
	}
	count := 1
	for _, s := range r.Scopes {
		for _, rate := range s.Policy.Rates {
			count = max(count, rate.Count)
		}
	}
	return l.line(ctx, r, count, manyAdmissions, "booked", "*")
}

// line reads those slots and admissions: see lineSource.
func (l *Redis) line(ctx context.Context, r Request, count, most int, slots, category string) (*Line, error) {
	reply, err := l.script(ctx, lineScript, []string{l.user(&r).keys.limits()}, TimelineEntries, count, most, slots, category).Slice()
	if err != nil {
		return nil, StoreError("timeline", err)
	}
	p := &Line{request: r, keep: l.keep, model: newModel()}
	return p, p.read(reply)
}

func (p *Line) read(reply []any) error {
	const head = 5
	if len(reply) < head {
		return errReply
	}
	now, err1 := integer(reply[0])
	waiting, err2 := integer(reply[1])
	sent, err3 := admissions(reply[4])
	if err := cmp.Or(err1, err2, err3); err != nil {
		return err
	}
	p.Now, p.Waiting, p.model.sent[General] = micros(now), int(waiting), sent
	words := map[string]string{}
	for _, field := range pairs(reply[3]) {
		words[field[0]] = field[1]
	}
	p.model.general = policyOf(words["g"])
	classes, queues := map[string]*class{}, map[string][]any{} // as they are escaped
	for _, one := range reply[head:] {
		fields, _ := one.([]any)
		if len(fields) != 3 {
			return errReply
		}
		escaped, _ := fields[0].(string)
		name, _ := url.PathUnescape(escaped)
		classes[escaped] = &class{policy: policyOf(words["c"+escaped])}
		queues[escaped], _ = fields[1].([]any)
		sent, err := admissions(fields[2])
		if err != nil {
			return err
		}
		if p.model.classes[name] = classes[escaped]; name != General {
			p.model.sent[name] = sent
		}
	}
	for _, slot := range pairs(reply[2]) {
		at, err := integer(slot[1])
		if err != nil {
			return err
		}
		escaped, _, _ := strings.Cut(slot[0], " ")
		c := classes[escaped]
		if k := len(c.slots); k < len(queues[escaped]) { // else it is nobody's
			id, _ := queues[escaped][k].(string)
			c.slots, c.queue = append(c.slots, at), append(c.queue, waiter{id: id})
		}
	}
	p.model.forget()
	return nil
}

// pairs are a reply's names and values, or members and scores.
func pairs(reply any) (all [][2]string) {
	list, _ := reply.([]any)
	for ; len(list) > 1; list = list[2:] {
		name, _ := list[0].(string)
		value, _ := list[1].(string)
		all = append(all, [2]string{name, value})
	}
	return all
}

func admissions(reply any) (all []admitted, err error) {
	for _, entry := range pairs(reply) {
		at, err := integer(entry[1])
		if err != nil {
			return nil, err
		}
		all = append(all, admitted{memberID(entry[0]), at})
	}
	return all, nil
}

// policyOf reads what words writes, nil for limits that limit nothing.
func policyOf(words string) *Policy {
	fields := strings.Fields(words)
	if len(fields) == 0 {
		return nil
	}
	p := Policy{Exempt: fields[0] == "2"}
	for i := 2; i+1 < len(fields); i += 2 {
		n, _ := strconv.Atoi(fields[i])
		at, _ := strconv.ParseInt(fields[i+1], 10, 64)
		if period := time.Duration(at) * time.Microsecond; i == 2 {
			p.MinGap = period
		} else {
			p.Rates = append(p.Rates, Rate{n, period})
		}
	}
	return &p
}

// A slotOf is who holds a slot.
type slotOf struct{ category, id string }

func (u *model) slots() map[slotOf]int64 {
	all := map[slotOf]int64{}
	for name, c := range u.classes {
		for k, at := range c.slots {
			all[slotOf{name, c.queue[k].id}] = at
		}
	}
	return all
}

// Moves returns what a Reschedule at the instant does with those that wait, by their
// slots.
func (p *Line) Moves(at time.Time) []Move {
	v := p.model.visit(&p.request, at.UnixMicro(), p.keep)
	before := p.model.slots()
	v.reschedule()
	after := p.model.slots()
	moves := make([]Move, 0, len(before))
	for of, from := range before {
		m := Move{ID: of.id, Category: of.category, From: micros(from), To: at}
		if to, waits := after[of]; waits {
			m.To = micros(to)
		} else {
			m.Free = true
		}
		moves = append(moves, m)
	}
	slices.SortFunc(moves, func(a, b Move) int { return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.ID, b.ID)) })
	return moves
}
