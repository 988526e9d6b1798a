package throttle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
)

// A claim is a first visit: one MULTI that reads the clock, whether anybody
// waits, and the n-th newest admission for each rule, and then enters the
// notification. The reads come first, so that the claim does not shift them.
//
// It is built from commands whose arguments point into it and whose replies
// land in one buffer, so that a recycled claim allocates nothing.
type claim struct {
	keys      *keys
	member    string
	scopes    []Scope
	views     []glance
	report    bool
	housekeep bool // trim, and set the expiry
	beside    bool // somebody waits further away, of another category perhaps
	keep      int64
	life      int64

	// set just before the claim is sent: the process's time, and the instant at which the
	// server is predicted to execute it, which is its score
	sent, stamp int64

	clock  *clock // of the node that it is sent to
	group  pipeline.Group
	spares []*command
	used   int
	reply  bytes.Buffer // of all the commands, in order
}

func newClaim() *claim {
	c := new(claim)
	c.group.Prepare = c.build
	return c
}

// A command is one command of a claim, with room for its arguments.
type command struct {
	cmd  *redis.RawWriteToCmd
	args [6]string
	refs []any // the array behind cmd's arguments: pointers to args
}

func (c *claim) add(args ...string) {
	if c.used == len(c.spares) {
		c.spares = append(c.spares, nil)
	}
	spare := c.spares[c.used]
	if spare == nil || len(spare.refs) != len(args) {
		spare = &command{refs: make([]any, len(args))}
		for i := range spare.refs {
			spare.refs[i] = &spare.args[i]
		}
		spare.cmd = redis.NewRawWriteToCmd(context.Background(), &c.reply, spare.refs...)
		c.spares[c.used] = spare
	}
	copy(spare.args[:], args)
	spare.cmd.SetErr(nil)
	c.group.Commands = append(c.group.Commands, spare.cmd)
	c.used++
}

// build lays out the commands, just before they are sent. What is trimmed must
// not hang on a prediction: it goes by an instant that the server has had.
func (c *claim) build() {
	c.sent = c.clock.elapsed()
	c.stamp, c.used = c.clock.predict(c.sent), 0
	seen := c.clock.seen.Load()
	c.group.Commands = c.group.Commands[:0]
	c.reply.Reset()
	c.add("multi")
	c.add("time")
	// A claim must not overtake its category, nor take room from who waits nearby.
	// A booking that is further away than any period shares no window with it. While
	// nobody waits at all one command tells both.
	general := c.scopes[0].Name == General
	if general {
		c.add("zrange", c.keys.booked, "0", "0", "withscores")
	}
	if !general || c.beside {
		c.add("exists", c.keys.catQueue)
	}
	for i := range c.views {
		set := c.set(i)
		for _, r := range c.views[i].rules {
			nth := strconv.Itoa(-r.n)
			c.add("zrange", set, nth, nth, "withscores")
		}
	}
	score := strconv.FormatInt(c.stamp, 10)
	for i := range c.views {
		set := c.set(i)
		c.add("zadd", set, "nx", score, c.member)
		if c.housekeep {
			c.add("zremrangebyscore", set, "-inf", strconv.FormatInt(seen-c.keep, 10))
			c.add("pexpire", set, strconv.FormatInt((c.life+999)/1000, 10))
		}
	}
	for i := range c.views {
		for _, r := range c.views[i].rules[1:] {
			if c.report {
				c.add("zcount", c.set(i), "("+strconv.FormatInt(c.stamp-r.period, 10), "+inf")
			}
		}
	}
	c.add("exec")
}

// set is the key of the i-th scope's admissions.
func (c *claim) set(i int) string { return c.keys.timeline(c.scopes[i].Name) }

// A claimed is what a claim's transaction answered.
type claimed struct {
	now     int64
	waiting bool  // somebody waits nearby, or of the category
	beside  bool  // somebody waits further away
	entered bool  // the claim is in every set, and was in none before
	empty   bool  // a set had no entry before
	counts  []int // admissions in each rate's window, the claim's own among them, when reported
}

// errNotHere means that the transaction was not executed: the slot has moved
// to another node of the cluster, or the server cannot run it now.
var errNotHere = errors.New("the transaction was not executed")

// parse reads the replies of the claim's commands.
func (c *claim) parse() (claimed, error) {
	var got claimed
	p := resp{buf: c.reply.Bytes()}
	queued := c.used - 2
	if err := p.queued(queued); err != nil {
		return got, err
	}
	if n := p.array(); n != queued {
		return got, p.fail()
	}
	if n := p.array(); n != 2 {
		return got, p.fail()
	}
	seconds, micros := p.integer(), p.integer()
	got.now = seconds*1_000_000 + micros
	general := c.scopes[0].Name == General
	if general {
		next := p.score()
		got.waiting = next != none && next <= max(c.stamp, got.now)+c.views[0].longest()
		got.beside = next != none && !got.waiting
	}
	if !general || c.beside {
		got.waiting = p.integer() > 0 || got.waiting
	}
	for i := range c.views {
		v := &c.views[i]
		for j := range v.rules {
			v.nth[j] = p.score()
		}
		got.empty = got.empty || v.nth[0] == none
	}
	got.entered = true
	for range c.views {
		got.entered = p.integer() == 1 && got.entered
		if c.housekeep {
			p.integer()
			p.integer()
		}
	}
	for i := range c.views {
		for range c.views[i].rules[1:] {
			if c.report {
				got.counts = append(got.counts, int(p.integer()))
			}
		}
	}
	return got, p.err
}

// agrees reports whether the admissions that the claim has seen allow it, and nobody
// waits.
func (c *claim) agrees(got claimed) bool {
	from := min(c.stamp, got.now)
	if tooEarly(c.stamp, got.now) {
		from = got.now // the entry is to be moved behind that
	}
	return decide(c.views, from) == from && !got.waiting &&
		(c.beside || !got.beside) // it may be of the category
}

// resp reads RESP2 and RESP3 replies of known shapes from a buffer. The first
// fault sticks.
type resp struct {
	buf []byte
	err error
}

func (p *resp) fail() error {
	if p.err == nil {
		p.err = errReply
	}
	return p.err
}

// line takes the next line, without its end. An error in the place of a reply is a fault.
func (p *resp) line() []byte {
	line, rest, found := bytes.Cut(p.buf, crlf)
	switch {
	case p.err != nil:
		return nil
	case !found || len(line) == 0:
		p.fail()
		return nil
	case line[0] == '-':
		p.err = fmt.Errorf("%w: %s", errNotHere, line[1:])
		return nil
	}
	p.buf = rest
	return line
}

var crlf = []byte("\r\n")

// queued takes what MULTI answers, and each of n commands behind it.
func (p *resp) queued(n int) error {
	const ok, queued = "+OK\r\n", "+QUEUED\r\n"
	want := ok
	for range n + 1 {
		if !bytes.HasPrefix(p.buf, []byte(want)) {
			if p.line(); p.err == nil {
				p.fail()
			}
			return p.err
		}
		p.buf, want = p.buf[len(want):], queued
	}
	return nil
}

// array takes the head of an array, and returns its length.
func (p *resp) array() int {
	if line := p.line(); line != nil && line[0] == '*' {
		if n, err := strconv.Atoi(string(line[1:])); err == nil {
			return n
		}
	}
	p.fail()
	return -1
}

// text takes a scalar.
func (p *resp) text() []byte {
	line := p.line()
	if line == nil || line[0] != '$' {
		return line[min(1, len(line)):]
	}
	n, err := strconv.Atoi(string(line[1:]))
	if err != nil || n < 0 || n > len(p.buf)-2 {
		p.fail()
		return nil
	}
	text := p.buf[:n]
	p.buf = p.buf[n+2:]
	return text
}

func (p *resp) integer() int64 { return p.number(p.text()) }

// number reads digits, or a double as Redis prints a score.
func (p *resp) number(text []byte) int64 {
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(math.Abs(f) <= 1<<62) { // NaN is neither
		p.fail()
		return 0
	}
	return int64(f)
}

// score takes a ZRANGE … WITHSCORES of at most one entry: a flat pair in RESP2,
// a pair inside an array in RESP3.
func (p *resp) score() entry {
	switch p.array() {
	case 0:
		return none
	case 1:
		if p.array() != 2 {
			p.fail()
		}
	case 2:
	default:
		p.fail()
	}
	if p.err != nil {
		return none
	}
	p.text()
	return p.number(p.text())
}

// entry is the instant of an entry in µs of the limiter's clock.
type entry = int64

// none stands for an entry that does not exist.
const none entry = -1

// A glance is what a first visit reads of one scope: for each rule the n-th
// newest admission, or none.
type glance struct {
	rules []rule
	nth   []entry
}

// longest is the longest of the rules' periods.
func (g *glance) longest() int64 {
	longest := int64(0)
	for _, r := range g.rules {
		longest = max(longest, r.period)
	}
	return longest
}

// decide returns the first instant, from that one on, at which every rule of
// every scope allows an admission: that instant itself when the request is allowed.
//
// A rule of n in a period allows an instant that lies at least the period after
// the n-th newest admission; an entry exactly one period old has expired.
func decide(views []glance, from int64) (at int64) {
	at = from
	for _, v := range views {
		for j, r := range v.rules {
			if r.period > 0 && v.nth[j] != none {
				at = max(at, v.nth[j]+r.period)
			}
		}
	}
	return at
}

// A claim's stamp is made before the server's clock is known. It counts when it
// is at most stampEarly before the server's instant, which bounds how much
// closer than allowed two admissions can really be, or at most stampLate after
// it, which only makes the next one wait. The entry of one that was too early is moved:
// see move.go.
const (
	stampEarly = 1_000  // µs
	stampLate  = 10_000 // µs
)

func stampHolds(stamp, now int64) bool {
	return !tooEarly(stamp, now) && stamp <= now+stampLate
}

func tooEarly(stamp, now int64) bool { return stamp < now-stampEarly }
