package throttle

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// claimOf is a claim whose commands were laid out and sent.
func claimOf(scopes int, report, housekeep bool) *claim {
	c := newClaim()
	c.clock = newClock(newFakeClock().process())
	c.clock.observe(0, 1_700_000_000_000_000)
	c.keys = &keys{sent: "sent", booked: "booked", catSent: "catsent", catQueue: "catqueue"}
	c.member, c.report, c.housekeep = "n", report, housekeep
	p := Policy{MinGap: 1000, Rates: []Rate{{3, 1000}}}
	c.scopes = []Scope{{General, p}, {"c", p}}[:scopes]
	for range scopes {
		c.views = append(c.views, glance{p.appendRules(nil), make([]entry, 2)})
	}
	c.build()
	return c
}

// answer is what Redis answers to a claim: MULTI, a QUEUED for each command, and
// what EXEC answers.
func answer(c *claim, replies ...string) []byte {
	return []byte("+OK\r\n" + strings.Repeat("+QUEUED\r\n", c.used-2) + fmt.Sprintf("*%d\r\n", c.used-2) + strings.Join(replies, ""))
}

const (
	theTime   = "*2\r\n$10\r\n1700000000\r\n$6\r\n000042\r\n"
	pair      = "*2\r\n$3\r\nfoo\r\n$16\r\n1700000000000000\r\n"
	pairRESP3 = "*1\r\n*2\r\n$3\r\nfoo\r\n,1700000000000000\r\n"
	nobody    = "*0\r\n"
	farAway   = "*2\r\n$3\r\nfoo\r\n$16\r\n1800000000000000\r\n"
)

func TestClaimReads(t *testing.T) {
	t.Parallel()
	const now, at = 1_700_000_000_000_042, 1_700_000_000_000_000
	claimBeside, claimAlone := claimOf(1, false, false), claimOf(2, false, false)
	claimBeside.beside = true
	claimBeside.build()
	claimAlone.scopes, claimAlone.views = claimAlone.scopes[1:], claimAlone.views[1:]
	claimAlone.build()
	for _, tt := range []struct {
		name    string
		claim   *claim
		replies []string
		want    claimed
		nth     [][]entry
	}{
		{"a free user", claimOf(1, false, false), []string{theTime, nobody, nobody, nobody, ":1\r\n"},
			claimed{now: now, entered: true, empty: true}, [][]entry{{none, none}}},
		{"RESP2", claimOf(1, false, false), []string{theTime, pair, pair, nobody, ":1\r\n"},
			claimed{now: now, waiting: true, entered: true}, [][]entry{{at, none}}},
		{"RESP3", claimOf(1, false, false), []string{theTime, nobody, pairRESP3, pairRESP3, ":0\r\n"},
			claimed{now: now}, [][]entry{{at, at}}},
		{"two scopes, one entered before", claimOf(2, false, false),
			[]string{theTime, pair, pair, pair, pair, nobody, ":1\r\n", ":0\r\n"},
			claimed{now: now, waiting: true}, [][]entry{{at, at}, {at, none}}},
		{"one who waits far away", claimOf(1, false, false), []string{theTime, farAway, nobody, nobody, ":1\r\n"},
			claimed{now: now, beside: true, entered: true, empty: true}, [][]entry{{none, none}}},
		{"one of another category", claimBeside, []string{theTime, farAway, ":0\r\n", nobody, nobody, ":1\r\n"},
			claimed{now: now, beside: true, entered: true, empty: true}, [][]entry{{none, none}}},
		{"one of the category", claimBeside, []string{theTime, farAway, ":1\r\n", nobody, nobody, ":1\r\n"},
			claimed{now: now, waiting: true, beside: true, entered: true, empty: true}, [][]entry{{none, none}}},
		{"a category alone", claimAlone, []string{theTime, ":1\r\n", pair, nobody, ":1\r\n"},
			claimed{now: now, waiting: true, entered: true}, [][]entry{{at, none}}},
		{"a report, and housekeeping", claimOf(2, true, true),
			[]string{theTime, nobody, pair, nobody, nobody, nobody, ":1\r\n", ":7\r\n", ":1\r\n", ":1\r\n", ":0\r\n", ":1\r\n", ":2\r\n", ":0\r\n"},
			claimed{now: now, entered: true, empty: true, counts: []int{2, 0}}, [][]entry{{at, none}, {none, none}}},
		{"a score in the notation of large doubles", claimOf(1, false, false),
			[]string{theTime, nobody, "*2\r\n$1\r\nn\r\n$8\r\n1.70e+15\r\n", nobody, ":1\r\n"},
			claimed{now: now, entered: true}, [][]entry{{at, none}}},
	} {
		tt.claim.reply = *bytes.NewBuffer(answer(tt.claim, tt.replies...))
		got, err := tt.claim.parse()
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: parse = %+v, %v; want %+v", tt.name, got, err, tt.want)
		}
		for i, nth := range tt.nth {
			if !reflect.DeepEqual(tt.claim.views[i].nth, nth) {
				t.Errorf("%s: the entries of scope %d are %v, want %v", tt.name, i, tt.claim.views[i].nth, nth)
			}
		}
	}
}

func TestClaimThatWasNotExecuted(t *testing.T) {
	t.Parallel()
	c := claimOf(1, false, false)
	whole := string(answer(c, theTime, nobody, nobody, nobody, ":1\r\n"))
	for name, reply := range map[string]string{
		"moved":    "+OK\r\n-MOVED 1 127.0.0.1:7000\r\n",
		"readonly": strings.Replace(whole, "*5\r\n", "-EXECABORT Transaction discarded\r\n", 1),
		"no MULTI": "-READONLY You can't write against a read only replica.\r\n",
	} {
		c.reply = *bytes.NewBufferString(reply)
		if _, err := c.parse(); !errors.Is(err, errNotHere) {
			t.Errorf("%s: parse gives %v", name, err)
		}
	}
	for cut := range whole { // a reply that breaks off is never an admission
		c.reply = *bytes.NewBufferString(whole[:cut])
		if got, err := c.parse(); err == nil {
			t.Fatalf("the first %d bytes are read as %+v", cut, got)
		}
	}
}

// FuzzClaimParse checks that no reply has a claim panic.
func FuzzClaimParse(f *testing.F) {
	for _, c := range []*claim{claimOf(1, false, false), claimOf(2, true, true)} {
		f.Add(answer(c, theTime, nobody, pair, nobody, pairRESP3, nobody, ":1\r\n", ":1\r\n"))
	}
	c := claimOf(1, false, false)
	f.Add(answer(c, theTime, nobody, pair, nobody, ":1\r\n"))
	f.Add(answer(c, theTime, "$9223372036854775807\r\n", "*-1\r\n"))
	f.Add(answer(c, "*2\r\n$3\r\nNaN\r\n,inf\r\n", "*1\r\n*2\r\n"))
	f.Add([]byte("+OK\r\n-ERR\r\n\r\n$-1\r\n"))
	f.Fuzz(func(t *testing.T, reply []byte) {
		for scopes := 1; scopes <= 2; scopes++ {
			for _, more := range []bool{false, true} {
				c := claimOf(scopes, more, more)
				c.reply = *bytes.NewBuffer(reply)
				got, err := c.parse()
				if err == nil && !strings.Contains(string(reply), fmt.Sprintf("*%d\r\n", c.used-2)) {
					t.Fatalf("%q is read as %+v", reply, got)
				}
				c.reply = *bytes.NewBuffer(answer(c, string(reply)))
				_, _ = c.parse()
			}
		}
	})
}
