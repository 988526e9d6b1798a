//go:build soak && unix

package soak

import (
	"bufio"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/rig"
	"github.com/pushpace/pushpace/throttle"
)

const (
	burstJobs = 200
	// alike is how soon after another one what leaves at its first check may have been
	// accepted, and go before it: it does not wait for what it does not know of.
	alike = 20 * time.Millisecond
)

// Two processes pull what one producer hands over for a user, and it leaves in the order
// in which it was accepted.
//
// The ledger is judged by two things that a process which does not get to run between an
// admission and the push cannot help. Two that were admitted in order may arrive in the
// other. And one that is 25 ms late for its admission asks anew: behind those that were
// admitted meanwhile, and behind those of its line that have slots. All else that leaves in
// another order than it was accepted is a fault, unless the machine stands still: of
// several that are late for their slots, whoever asks first goes.
func TestABurstLeavesInOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("it needs a machine that does nothing else")
	}
	t.Parallel()
	if wrong := outOfOrder(t); wrong != "" {
		t.Error(wrong)
	}
}

// outOfOrder has a burst of one user's go through two processes. It answers what is wrong
// with the order in which it leaves.
func outOfOrder(t *testing.T) string {
	c := rig.NewCrashSite(t, throttle.Policy{MinGap: 40 * time.Millisecond}, time.Millisecond)
	made := recordAdmissions(t, c)
	workers := []*rig.Program{c.Serve(t), c.Serve(t)}
	producer, records := push.NewProducer(c.Client, "", 0), store.NewRecords(c.Client, "", 0)
	var accepted [burstJobs]time.Time
	for i := range accepted {
		accepted[i] = time.Now()
		if _, err := producer.Enqueue(t.Context(), &push.Notification{
			ID: fmt.Sprint("n-", i), App: "shop", User: "ada", Title: "hello", Targets: []push.Target{{Platform: push.APNs, Token: "00"}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	c.Drained(t, burstJobs)
	admissions := made()

	var left []int
	var waited [burstJobs]bool
	for _, e := range c.APNs.Ledger().Entries() {
		var i int
		if _, err := fmt.Sscanf(e.Notification, "n-%d", &i); err != nil {
			t.Fatalf("a push of %q", e.Notification)
		}
		record, _, err := records.Lookup(t.Context(), push.Ref{ID: e.Notification})
		rig.Must(t, err)
		left, waited[i] = append(left, i), record.Deferrals > 0
	}
	if len(left) != burstJobs || len(admissions) != burstJobs {
		t.Fatalf("%d have left, and %d were admitted, of %d", len(left), len(admissions), burstJobs)
	}
	swapped, wrong := 0, ""
	for k, later := range left {
		for _, earlier := range left[k+1:] {
			apart := accepted[later].Sub(accepted[earlier])
			if earlier > later || !waited[later] && apart < alike {
				continue
			}
			if swapped++; !admissions.inOrder(earlier, later) && !admissions.lostBetween(earlier, later) {
				wrong = fmt.Sprintf("n-%d was accepted %s before n-%d, and left after it: %v, %v", earlier, apart, later, admissions[earlier], admissions[later])
			}
		}
	}
	t.Logf("%d swapped, %d lost their admission", swapped, admissions.lost())
	c.Stop(t, workers...)
	return wrong
}

// admitted are the admissions of each, one after another, as Redis has executed them.
type admitted map[int][]admittedOnce

// An admittedOnce was made at one instant, and is for another.
type admittedOnce struct{ made, at time.Time }

func (a admittedOnce) String() string {
	return fmt.Sprintf("at %s for %s", a.made.Format("05.000000"), a.at.Format("05.000000"))
}

// recordAdmissions records what is entered into ada's timeline until the function that
// it returns is called.
func recordAdmissions(t *testing.T, c *rig.CrashSite) func() admitted {
	t.Helper()
	entry := regexp.MustCompile(`^\+(\d+)\.(\d{6}) \[\d+ (\S+)\] "(?:ZADD|zadd)" "[^"]+\{shop/ada\}:sent" (?:"nx" )?"(\d+)" "n-(\d+)"$`)
	all, claims := admitted{}, admitted{}
	end := monitor(t, c.Server, func(line string) {
		if e := entry.FindStringSubmatch(line); e != nil {
			kind := claims // of which the script undoes some
			if e[3] == "lua" {
				kind = all
			}
			kind.note(number(e[1]+e[2]), number(e[4]), int(number(e[5])))
		}
	})
	return func() admitted {
		end()
		for i, claimed := range claims {
			if all[i] == nil {
				all[i] = claimed
			}
		}
		return all
	}
}

// monitor calls each with every command that a Redis executes, as MONITOR tells it, until
// the function that it returns is called.
func monitor(t *testing.T, server *redistest.Server, each func(line string)) (end func()) {
	t.Helper()
	conn, err := net.Dial("tcp", server.Addr())
	rig.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 4<<20) // a script with all of its arguments is one
	if _, err := fmt.Fprint(conn, "MONITOR\r\n"); err != nil || !lines.Scan() {
		t.Fatalf("MONITOR: %v, %v", err, lines.Err())
	}
	const last = "that is all"
	read := make(chan error, 1)
	go func() {
		for lines.Scan() {
			if strings.Contains(lines.Text(), last) {
				read <- nil
				return
			}
			each(lines.Text())
		}
		read <- fmt.Errorf("MONITOR ended: %w", lines.Err())
	}()
	return func() {
		t.Helper()
		rig.Must(t, server.Client(t).Echo(t.Context(), last).Err())
		rig.Must(t, <-read)
	}
}

func number(digits string) int64 {
	n, _ := strconv.ParseInt(digits, 10, 64) // they are digits
	return n
}

// note adds an admission that was not there before.
func (all admitted) note(made, at int64, i int) {
	one := admittedOnce{time.UnixMicro(made), time.UnixMicro(at)}
	if n := len(all[i]); n == 0 || one.at.Sub(all[i][n-1].at).Abs() > time.Millisecond {
		all[i] = append(all[i], one)
	}
}

// lost is how many have asked anew.
func (all admitted) lost() (n int) {
	for _, one := range all {
		if len(one) > 1 {
			n++
		}
	}
	return n
}

// inOrder reports whether the earlier one was admitted before the later one.
func (all admitted) inOrder(earlier, later int) bool {
	a, b := all[earlier], all[later]
	return a[len(a)-1].at.Before(b[len(b)-1].at)
}

// lostBetween reports whether the earlier one, or one that was accepted before it, has
// lost an admission and got another since the later one had been admitted, and before the
// earlier one was.
func (all admitted) lostBetween(earlier, later int) bool {
	from, to := all[later][0].made, all[earlier][len(all[earlier])-1].made
	for i := 0; i <= earlier; i++ {
		for k := 1; k < len(all[i]); k++ {
			if before, after := all[i][k-1], all[i][k]; before.at.Before(to) && !after.made.Before(from) {
				return true
			}
		}
	}
	return false
}
