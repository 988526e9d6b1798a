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

	"github.com/pushpace/pushpace/internal/base/acknowledged"
)

// A Line is those who wait of a user and what they wait behind, as it was read: what a
// Reschedule by the request would do with them can be asked of it, and nothing is
// written. It is asked once.
type Line struct {
	Now     time.Time // on the limiter's clock
	Waiting int       // how many wait and have a slot

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

// lineSource returns the categories whose keys it needs, and while there are none the
// clock, the slots, the hash of limits and the general admissions; then of each category
// its name, its queue and its admissions. Of the admissions those are enough that the
// longest rule counts, and those that are ahead.
//
// KEYS     as booking.lua has them
// ARGV[1]  how many admissions the request's rules count; then the categories
const lineSource = `
local clock, slots, fields = redis.call('TIME'), redis.call('ZRANGE', KEYS[2], 0, -1), redis.call('HGETALL', KEYS[3])
local count, given, lacks = tonumber(ARGV[1]), {}, {}
for i = 2, #ARGV do given[ARGV[i]] = true end
for i = 1, #fields, 2 do
  local rules = string.match(fields[i], '^[gc]') and string.match(fields[i + 1], '^%d+ %d+ (.*)$') or ''
  for n in string.gmatch(rules, '(%d+) %d+') do count = math.max(count, tonumber(n)) end
  local name = string.match(fields[i], '^c(.*)')
  if name and name ~= ARGV[2] then
    lacks[#lacks + 1], lacks.any = name, lacks.any or not given[name]
  end
end
if lacks.any then return {lacks} end
local now = clock[1] * 1000000 + clock[2]
local function sent(set)
  local list = redis.call('ZRANGE', set, -count - redis.call('ZCOUNT', set, now, '+inf'), -1, 'WITHSCORES')
  for i = 2, #list, 2 do list[i] = string.format('%.0f', tonumber(list[i])) end
  return list
end
local reply = {{}, now, slots, fields, sent(KEYS[1])}
for i = 2, #ARGV do
  reply[#reply + 1] = {ARGV[i], redis.call('ZRANGE', KEYS[2 * i + 1], 0, #slots), sent(KEYS[2 * i])}
end
return reply`

var lineScript = acknowledged.Reader(redis.NewScript(lineSource))

// Line reads what a Reschedule of the request would work with.
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
	return l.line(ctx, r, count)
}

// line reads so many admissions at least, see lineSource.
func (l *Redis) line(ctx context.Context, r Request, count int) (*Line, error) {
	p := &Line{request: r, keep: l.keep, model: newModel()}
	user := l.user(&r)
	return p, user.withOthers(func(others []string) (lacks []string, err error) {
		args := []any{count, user.keys.category}
		for _, name := range others {
			args = append(args, name)
		}
		reply, err := l.script(ctx, lineScript, user.keys.all(others), args...).Slice()
		if err != nil {
			return nil, StoreError("timeline", err)
		}
		if lacks, err = texts(reply); len(lacks) > 0 || err != nil {
			return lacks, err
		}
		return nil, p.read(reply[1:])
	})
}

func (p *Line) read(reply []any) error {
	const head = 4
	if len(reply) < head {
		return errReply
	}
	now, err1 := integer(reply[0])
	booked, _ := reply[1].([]any)
	sent, err2 := admissions(reply[3])
	if err := cmp.Or(err1, err2); err != nil {
		return err
	}
	p.Now, p.Waiting, p.model.sent[General] = micros(now), len(booked), sent
	words := map[string]string{}
	for _, field := range pairs(reply[2]) {
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
	p.model.read(words, classes)
	for _, slot := range booked {
		text, _ := slot.(string)
		escaped, instant, _ := strings.Cut(text, " ")
		at, err := integer(instant)
		c := classes[escaped]
		if c == nil || err != nil { // what it is of is lost
			continue
		}
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
