//go:build unix

package throttle_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle"
)

// scripts answers how many scripts Redis has run since its statistics were reset.
func scripts(t *testing.T, client *redis.Client) (n int) {
	t.Helper()
	info, err := client.Info(context.Background(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range statScripts.FindAllStringSubmatch(info, -1) {
		calls, _ := strconv.Atoi(m[1])
		n += calls
	}
	return max(1, n)
}

var statScripts = regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+)`)

var statCPU = regexp.MustCompile(`used_cpu_(?:user|sys)_main_thread:(\S+)`)

// worked answers how long Redis has worked by its own account: on a machine that
// is busy it waits, and that is not counted.
func worked(t *testing.T, client *redis.Client) (total time.Duration) {
	t.Helper()
	info, err := client.Info(context.Background(), "cpu").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range statCPU.FindAllStringSubmatch(info, -1) {
		seconds, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		total += time.Duration(seconds * float64(time.Second))
	}
	return total
}

// longest answers how long the longest script took, of those that took a millisecond.
func longest(t *testing.T, client *redis.Client) (most time.Duration) {
	t.Helper()
	slow, err := client.SlowLogGet(context.Background(), -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range slow {
		if strings.HasPrefix(strings.ToLower(command.Args[0]), "eval") {
			most = max(most, command.Duration)
		}
	}
	return most
}

// A longLine is a user's on a server of its own, where many wait.
type longLine struct {
	t       *testing.T
	client  *redis.Client
	limiter *throttle.Redis
	prefix  string
	waiting int
}

func (l *longLine) key(name string) string { return l.prefix + ":{u}:" + name }

func (l *longLine) exec(queue func(p redis.Pipeliner, now int64)) {
	l.t.Helper()
	ctx := context.Background()
	now, err := l.client.Time(ctx).Result()
	if err != nil {
		l.t.Fatal(err)
	}
	if _, err := l.client.Pipelined(ctx, func(p redis.Pipeliner) error { queue(p, now.UnixMicro()); return nil }); err != nil {
		l.t.Fatal(err)
	}
}

// fill has all wait, two seconds apart, of either category.
func (l *longLine) fill() {
	l.exec(func(p redis.Pipeliner, now int64) {
		for i := range l.waiting {
			at := float64(now + int64(i)*2_000_000)
			for _, class := range []string{"", "c"} {
				p.ZAdd(context.Background(), "filled:booked:"+class, redis.Z{Score: at, Member: fmt.Sprintf("%s %d", class, i)})
				p.ZAdd(context.Background(), "filled:queue:"+class, redis.Z{Score: at, Member: fmt.Sprint("n", i)})
			}
		}
	})
}

// reset puts all back to where they waited. A thousand have just been sent
// where nobody is to go now.
func (l *longLine) reset(r throttle.Request, busy bool) {
	ctx := context.Background()
	class, own := "", ""
	if len(r.Scopes) > 1 {
		class, own = "c", throttle.Words(r.Scopes[1].Policy)
	}
	l.exec(func(p redis.Pipeliner, now int64) {
		p.Del(ctx, l.key("sent"), l.key("sent:c"), l.key("limits"))
		p.Copy(ctx, "filled:booked:"+class, l.key("booked"), 0, true)
		for _, set := range []string{"booked:", "queue:"} {
			p.Copy(ctx, "filled:"+set+class, l.key(set+class), 0, true)
		}
		p.HSet(ctx, l.key("limits"), "g", throttle.Words(r.Scopes[0].Policy), "c"+class, own, "#", l.waiting)
		for i := 0; busy && i < 1000; i++ {
			for _, set := range []string{"sent", "sent:c"} {
				p.ZAdd(ctx, l.key(set), redis.Z{Score: float64(now - int64(i)), Member: fmt.Sprint("sent", i)})
			}
		}
	})
}

// with answers the request with other policies.
func with(r throttle.Request, change func(throttle.Policy) throttle.Policy) throttle.Request {
	scopes := r.Scopes
	r.Scopes = nil
	for _, s := range scopes {
		r.Scopes = append(r.Scopes, throttle.Scope{Name: s.Name, Policy: change(s.Policy)})
	}
	return r
}

// TestTheLongestScript has each call that moves a whole line move one as long as
// limits.max_booked lets it be, under many limits. How long Redis works for that
// depends on the machine, and is logged: 10 ms in one script are too long, and 50 a
// fault on any machine. Besides, no slot takes commands of its own, few scripts move the
// whole line, also where all slots go far beyond where they were, and what anybody may
// ask for costs one script.
func TestTheLongestScript(t *testing.T) {
	t.Parallel()
	const waiting, day = 10_000, 24 * time.Hour
	gap := func(d time.Duration) throttle.Policy { return throttle.Policy{MinGap: d} }
	rate := func(n int, p time.Duration) throttle.Policy {
		return throttle.Policy{Rates: []throttle.Rate{{Count: n, Period: p}}}
	}
	two := throttle.Policy{MinGap: time.Second, Rates: []throttle.Rate{{Count: 10, Period: time.Minute}}}
	three := throttle.Policy{MinGap: time.Second, Rates: []throttle.Rate{{Count: 10, Period: time.Minute}, {Count: 1000, Period: day}}}
	halved := func(p throttle.Policy) throttle.Policy {
		half := throttle.Policy{MinGap: p.MinGap / 2}
		for _, r := range p.Rates {
			half.Rates = append(half.Rates, throttle.Rate{Count: r.Count, Period: r.Period / 2})
		}
		return half
	}
	for _, mix := range []struct {
		name    string
		general throttle.Policy
		own     *throttle.Policy // the category's
	}{
		{"gap", gap(time.Second), nil},
		{"10 an hour", rate(10, time.Hour), nil},
		{"1000 a day", rate(1000, day), nil},
		{"gap and two rates", three, nil},
		{"category's gap", two, new(gap(30 * time.Second))},
		{"category's 1000 a day", two, new(rate(1000, day))},
		{"1000 a day, category's gap", rate(1000, day), new(gap(30 * time.Second))},
		{"half and half", gap(time.Second), new(rate(1000, day))},
	} {
		t.Run(mix.name, func(t *testing.T) {
			server := redistest.Start(t, redistest.Args("--slowlog-log-slower-than", "1000"))
			l := &longLine{t: t, client: server.Client(t), prefix: redistest.Prefix(), waiting: waiting}
			l.limiter = newRedisOn(t, server.Options(), throttle.Options{Prefix: l.prefix})
			l.fill()
			ctx := t.Context()
			request := throttle.Request{User: "u", ID: "n0", MaxBooked: waiting, Horizon: 10_000 * day, Scopes: []throttle.Scope{{Name: throttle.General, Policy: mix.general}}}
			if mix.own != nil {
				request.Scopes = append(request.Scopes, throttle.Scope{Name: "c", Policy: *mix.own})
			}
			newcomer := request
			newcomer.ID = "new"
			acquire := func(r throttle.Request) error { _, err := l.limiter.Acquire(ctx, r); return err }
			reschedule := func(r throttle.Request) error { _, err := l.limiter.Reschedule(ctx, r); return err }
			cancel := func(r throttle.Request) error { _, err := l.limiter.Cancel(ctx, r); return err }
			// measure answers how many scripts Redis runs for the call.
			measure := func(name string, busy, inOrder bool, call func(throttle.Request) error, r throttle.Request) int {
				least, script, n, runs := time.Hour, time.Hour, 0, 0
				for range 3 {
					l.reset(request, busy)
					if inOrder {
						if err := reschedule(request); err != nil {
							t.Fatal(err)
						}
					}
					if err := l.client.ConfigResetStat(ctx).Err(); err != nil {
						t.Fatal(err)
					}
					if err := l.client.Do(ctx, "SLOWLOG", "RESET").Err(); err != nil {
						t.Fatal(err)
					}
					before := worked(t, l.client)
					if err := call(r); err != nil {
						t.Fatal(err)
					}
					least, n, runs = min(least, worked(t, l.client)-before), commands(t, l.client), scripts(t, l.client)
					script = min(script, longest(t, l.client))
				}
				t.Logf("%s, %s: Redis works for %v, the longest script takes %v, %d commands in %d scripts", mix.name, name, least.Round(100*time.Microsecond), script, n, runs)
				if each := least / time.Duration(runs); each > 50*time.Millisecond {
					t.Errorf("%s: Redis works for %v in one script", name, each)
				}
				if runs > waiting/100 {
					t.Errorf("%s: a line of %d takes %d scripts", name, waiting, runs)
				}
				if n > 300*runs { // each of which moves several hundred
					t.Errorf("%s: Redis executes %d commands in %d scripts for a line of %d", name, n, runs, waiting)
				}
				return runs
			}
			measure("reschedule", false, false, reschedule, request)
			measure("raised", false, true, reschedule, with(request, halved))
			measure("lifted", false, false, reschedule, with(request, func(throttle.Policy) throttle.Policy { return throttle.Policy{} }))
			for name, n := range map[string]int{
				"late":     measure("late", true, false, acquire, request),
				"newcomer": measure("newcomer", true, false, acquire, newcomer),
				"cancel":   measure("cancel", true, false, cancel, request),
			} {
				if n > 1 {
					t.Errorf("%s: %d scripts", name, n)
				}
			}
		})
	}
}
