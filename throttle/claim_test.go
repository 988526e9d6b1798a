package throttle

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func claimRequest(scopes int, report bool) *Request {
	p := Policy{MinGap: time.Millisecond, Rates: []Rate{{3, time.Millisecond}}}
	return &Request{User: "u", ID: "n", Report: report, Scopes: []Scope{{General, p}, {"c", p}}[:scopes]}
}

// What Redis answers to a claim's commands.
var (
	theTime   = []any{"1700000000", "000042"}
	pair      = []any{"foo", "1700000000000000"}
	pairRESP3 = []any{[]any{"foo", 1_700_000_000_000_000.0}}
	large     = []any{"foo", "1.70e+15"} // in the notation of large doubles
	nobody    = []any{}
)

func TestClaimReads(t *testing.T) {
	t.Parallel()
	const now, free = 1_700_000_000_000_042, 1_700_000_000_001_000
	for _, tt := range []struct {
		name    string
		scopes  int
		report  bool
		kept    bool // housekeeping
		replies []any
		want    claim
	}{
		{"a free user", 1, false, false, []any{theTime, int64(0), nobody, nobody, int64(1)},
			claim{now: now, entered: true, fresh: true}},
		{"RESP2, and somebody waits", 1, false, false, []any{theTime, int64(1), pair, pair, int64(1)},
			claim{now: now, waits: true, entered: true, free: free}},
		{"RESP3, entered before", 1, false, false, []any{theTime, int64(0), pairRESP3, pairRESP3, int64(0)},
			claim{now: now, free: free}},
		{"a large score", 1, false, false, []any{theTime, int64(0), nobody, large, int64(1)},
			claim{now: now, entered: true, fresh: true, free: free}},
		{"two scopes, one entered before", 2, false, false,
			[]any{theTime, int64(0), pair, pair, pair, nobody, int64(1), int64(0)}, claim{now: now, free: free}},
		{"a report, and housekeeping", 2, true, true,
			[]any{theTime, int64(0), nobody, nobody, nobody, nobody, int64(1), int64(7), int64(1), int64(1), int64(0), int64(1), int64(2), int64(0)},
			claim{now: now, entered: true, fresh: true, counts: []int{2, 0}}},
	} {
		c := claim{housekept: tt.kept}
		err := c.read(claimRequest(tt.scopes, tt.report), tt.replies)
		tt.want.housekept = tt.kept
		if err != nil || !reflect.DeepEqual(c, tt.want) {
			t.Errorf("%s: %+v, %v; want %+v", tt.name, c, err, tt.want)
		}
		for cut := range tt.replies { // what breaks off is never an admission
			c := claim{housekept: tt.kept}
			if err := c.read(claimRequest(tt.scopes, tt.report), tt.replies[:cut]); err == nil {
				t.Errorf("%s: the first %d replies are read as %+v", tt.name, cut, c)
			}
		}
	}
	for name, replies := range map[string][]any{
		"no time":          {int64(1), int64(0), nobody, nobody, int64(1)},
		"an array":         {theTime, int64(0), nobody, nobody, []any{}},
		"one user's error": {theTime, int64(0), errors.New("WRONGTYPE"), nobody, int64(1)},
	} {
		if err := new(claim).read(claimRequest(1, false), replies); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}

func TestClaimIsJudged(t *testing.T) {
	t.Parallel()
	const now = 1_000_000_000
	good := func(change func(*claim)) *claim {
		c := &claim{now: now, stamp: now, entered: true, free: now}
		change(c)
		return c
	}
	for name, tt := range map[string]struct {
		change func(*claim)
		want   bool
	}{
		"the rules allow it now":      {func(*claim) {}, true},
		"a microsecond too early":     {func(c *claim) { c.free++ }, false},
		"somebody waits":              {func(c *claim) { c.waits = true }, false},
		"an admission stands there":   {func(c *claim) { c.entered = false }, false},
		"an early stamp":              {func(c *claim) { c.stamp -= stampEarly; c.free = c.stamp }, true},
		"allowed after its stamp":     {func(c *claim) { c.stamp -= stampEarly }, false},
		"a stamp that is too early":   {func(c *claim) { c.stamp -= stampEarly + 1; c.free = c.stamp }, false},
		"a late stamp":                {func(c *claim) { c.stamp += stampLate }, true},
		"allowed after now":           {func(c *claim) { c.stamp += stampLate; c.free++ }, false},
		"a stamp that is too late":    {func(c *claim) { c.stamp += stampLate + 1 }, false},
		"no limit, and no history":    {func(c *claim) { c.free = 0 }, true},
		"the limits allow it earlier": {func(c *claim) { c.free -= 5 }, true},
	} {
		if got := good(tt.change).judge(); got != tt.want {
			t.Errorf("%s: granted %t", name, got)
		}
	}
}

// replied is an error that Redis answers.
type replied string

func (r replied) Error() string { return string(r) }
func (replied) RedisError()     {}

// failingClaims answers the claims of a client with the error, executed or not.
type failingClaims struct {
	err     error
	execute bool
}

func (f *failingClaims) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (f *failingClaims) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (f *failingClaims) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if f.err == nil || cmds[0].Name() != "multi" {
			return next(ctx, cmds)
		}
		if f.execute {
			_ = next(ctx, cmds)
		}
		for _, cmd := range cmds {
			cmd.SetErr(f.err)
		}
		return f.err
	}
}

// What Redis has not executed is decided by the script. Of what is lost nothing is known, and
// asked again it is granted by the one admission that it has.
func TestClaimThatWasNotExecuted(t *testing.T) {
	t.Parallel()
	moved := replied("MOVED 1 127.0.0.1:7000")
	lost := errors.New("the connection is lost")
	for name, tt := range map[string]struct {
		failingClaims
		fails bool
	}{
		"moved":                        {failingClaims{err: moved}, false},
		"lost on the way there":        {failingClaims{err: lost}, true},
		"executed, and its reply lost": {failingClaims{lost, true}, true},
	} {
		l := newClockedLine(t)
		l.limiter.client.AddHook(&tt.failingClaims)
		r := l.request("n", Policy{MinGap: 24 * time.Hour})
		d, err := l.limiter.Acquire(t.Context(), r)
		if failed := err != nil; failed != tt.fails {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
		tt.err = nil
		l.advance(time.Minute)
		if d, err := l.limiter.Acquire(t.Context(), r); err != nil || d.Status != Granted {
			t.Errorf("%s, and asked again: %+v, %v", name, d, err)
		}
		timeline, err := l.limiter.Timeline(t.Context(), r)
		if err != nil || len(timeline.Admissions[General]) != 1 || len(timeline.Bookings) > 0 {
			t.Errorf("%s: it holds %+v, %v", name, timeline, err)
		}
	}
}

func TestMarginIsAFiftiethAndAtMostThreeMilliseconds(t *testing.T) {
	t.Parallel()
	for rate, want := range map[string]int64{"1/1ms": 20, "10/1s": 2000, "1/24h": 3000, "1000000/1ms": 1} {
		r, err := ParseRate(rate)
		if err != nil {
			t.Fatal(err)
		}
		if got := (Policy{Rates: []Rate{r}}).margin(); got != want {
			t.Errorf("the margin of %s is %d µs, want %d", rate, got, want)
		}
	}
	if got := (Policy{}).margin(); got != 1 {
		t.Errorf("the margin without limits is %d µs, want 1", got)
	}
}
