package redisconn

import (
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/logdedup"
	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redistest"
)

// The Watch logs an error state once, with its cause, and its end once. Quiet loggers do not log
// its consequences.
func TestWatchLogsErrorStateOnce(t *testing.T) {
	t.Parallel()
	full := func(s *redistest.Server, t *testing.T) { set(t, s, "maxmemory", "1") }
	for name, c := range map[string]struct {
		begin, end func(*redistest.Server, *testing.T)
		trouble    redisreply.Trouble
		says       []string
	}{
		"full": {full, func(s *redistest.Server, t *testing.T) { set(t, s, "maxmemory", "0") }, redisreply.Full,
			[]string{"is full (OOM): nothing is accepted", "raise its maxmemory", "OOM command not allowed"}},
		"gone": {func(s *redistest.Server, t *testing.T) { s.Kill(t) }, func(s *redistest.Server, t *testing.T) { s.Restart(t) }, redisreply.Away,
			[]string{"does not answer: nothing is accepted", "cannot be reached"}},
		"without replicas": {func(s *redistest.Server, t *testing.T) { set(t, s, "min-replicas-to-write", "1") },
			func(s *redistest.Server, t *testing.T) { set(t, s, "min-replicas-to-write", "0") }, redisreply.NoReplicas,
			[]string{"(NOREPLICAS)", "bring them back"}},
		"a replica": {func(s *redistest.Server, t *testing.T) { replicaOf(t, s, "127.0.0.1", "1") },
			func(s *redistest.Server, t *testing.T) { replicaOf(t, s, "no", "one") }, redisreply.ReadOnly,
			[]string{"(READONLY)", "or to the Sentinels"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, redistest.AppendOnly())
			conn := open(t, settings(config.Single, s.Addr()))
			told := new(eventually.Log)
			log := slog.New(slog.NewTextHandler(told, nil))
			w := conn.Watch(settings(config.Single, s.Addr()), WatchOptions{Name: "Redis", Effect: "nothing is accepted", Log: log})
			defer w.Close()
			others := Quiet(log, w).With("lane", 1)
			if err := conn.Client.Set(t.Context(), "k", "v", 0).Err(); err != nil || w.Check(t.Context()) != redisreply.None {
				t.Fatalf("%v, %q", err, w.Status().Trouble)
			}
			c.begin(s, t)
			if err := conn.Client.Set(t.Context(), "k", "v", 0).Err(); err == nil {
				t.Fatal("nothing fails")
			}
			others.Error("a loop fails") // just after the loop's command has failed
			eventually.Holds(t, "the status is told", func() bool { return w.Status().Trouble == c.trouble && told.String() != "" })
			others.Error("a loop fails")
			text := told.String()
			if strings.Count(text, "\n") != 1 || !strings.Contains(text, "level=ERROR") {
				t.Errorf("told: %s", text)
			}
			for _, words := range append(c.says, "address="+s.Addr(), "trouble="+string(c.trouble)) {
				if !strings.Contains(text, words) {
					t.Errorf("told: %s; want %q", text, words)
				}
			}
			if got := w.Check(t.Context()); got != c.trouble {
				t.Errorf("looked at now: %q", got)
			}
			c.end(s, t)
			eventually.Holds(t, "the trouble is over, and the log says so", func() bool {
				return w.Status().Trouble == redisreply.None && strings.Contains(told.String(), "well again")
			})
			others.Error("a loop fails by itself")
			after := strings.TrimPrefix(told.String(), text)
			if !strings.Contains(after, "Redis is well again") || !strings.Contains(after, "was=") || !strings.Contains(after, "level=ERROR msg=\"a loop fails by itself\" lane=1") || strings.Count(after, "\n") != 2 {
				t.Errorf("told once it is over: %s", after)
			}
		})
	}
}

func set(t *testing.T, s *redistest.Server, name, value string) {
	t.Helper()
	must(t, s.Client(t).ConfigSet(t.Context(), name, value).Err())
}

func replicaOf(t *testing.T, s *redistest.Server, host, port string) {
	t.Helper()
	must(t, s.Client(t).Do(t.Context(), "REPLICAOF", host, port).Err())
}

// An error state ends when Redis has been healthy for recheckInterval.
func TestErrorStateEndsAfterRecheckInterval(t *testing.T) {
	t.Parallel()
	at := func(seconds float64) time.Time {
		return time.Unix(100, 0).Add(time.Duration(seconds * float64(time.Second)))
	}
	var c condition
	for i, step := range []struct {
		found redisreply.Trouble
		at    float64
		want  redisreply.Trouble
		since float64
	}{
		{redisreply.None, 0, redisreply.None, 0}, {redisreply.Away, 1, redisreply.Away, 1}, {redisreply.Starting, 2, redisreply.Starting, 1}, {redisreply.None, 3, redisreply.Starting, 1}, {redisreply.Away, 3.5, redisreply.Away, 1},
		{redisreply.None, 4, redisreply.Away, 1}, {redisreply.None, 4.9, redisreply.Away, 1}, {redisreply.None, 5, redisreply.None, 0}, {redisreply.Full, 6, redisreply.Full, 6},
	} {
		c = c.next(step.found, at(step.at))
		if c.trouble != step.want || step.want != redisreply.None && !c.since.Equal(at(step.since)) {
			t.Errorf("step %d: %+v", i, c)
		}
	}
}

// Quiet loggers are also quiet about an error that a check does not confirm: the Watch logs it, at
// most once a minute.
func TestUnconfirmedErrorIsLoggedOnce(t *testing.T) {
	t.Parallel()
	told := new(eventually.Log)
	log := slog.New(slog.NewTextHandler(told, nil))
	w := &Watch{o: WatchOptions{Name: "Redis", Log: log}, woken: make(chan struct{}, 1)}
	others := Quiet(log, w)
	var repeated logdedup.Log
	begin := time.Now().Add(-time.Hour)
	for i := range 130 { // one error each second
		w.suspectError(fmt.Errorf("write: i/o timeout %d", i))
		others.Error("a loop fails")
		repeated.Write(t.Context(), others, slog.LevelError, "a loop fails", nil)
		now := begin.Add(time.Duration(i) * time.Second)
		w.found(map[string]error{"": nil}, now)
		if w.suspect != nil || !w.cleared.Equal(now) {
			t.Fatalf("suspect %v, cleared %s", w.suspect, w.cleared)
		}
	}
	repeated.Close()
	text := told.String()
	for _, says := range []string{"i/o timeout 0", "i/o timeout 60", "i/o timeout 120", "level=WARN", "Redis rejected or lost a command, but a check right afterwards succeeded"} {
		if !strings.Contains(text, says) {
			t.Errorf("no %q in %s", says, text)
		}
	}
	if n := strings.Count(text, "\n"); n != 3 {
		t.Errorf("told %d times: %s", n, text)
	}
}

// On a Cluster the Watch logs a single node's error state as that node's, and the error state of all
// nodes as the Cluster's.
func TestWatchLogsStateOfClusterNode(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3, redistest.Args("--cluster-require-full-coverage", "no"))
	conn := open(t, settings(config.Cluster, nodes[0].Addr()))
	told := new(eventually.Log)
	log := slog.New(slog.NewTextHandler(told, nil))
	w := conn.Watch(settings(config.Cluster, nodes[0].Addr()), WatchOptions{
		Name: "Redis", Effect: "nothing is accepted", NodeEffect: "what it holds waits", Log: log,
	})
	defer w.Close()
	look := func(want redisreply.Trouble, its ...NodeTrouble) {
		t.Helper()
		if got := w.Check(t.Context()); got != want || !slices.Equal(w.Status().Nodes, its) {
			t.Errorf("%q, %v; want %q, %v", got, w.Status(), want, its)
		}
	}
	over := func() {
		t.Helper()
		eventually.Holds(t, "all is well", func() bool { return w.Status().isHealthy() })
	}
	look(redisreply.None)
	set(t, nodes[1], "maxmemory", "1")
	look(redisreply.None, NodeTrouble{nodes[1].Addr(), redisreply.Full})
	set(t, nodes[1], "maxmemory", "0")
	over()
	nodes[2].Pause(t)
	look(redisreply.None, NodeTrouble{nodes[2].Addr(), redisreply.Away})
	Quiet(log, w).Error("a loop fails") // on that node
	nodes[2].Resume(t)
	over()
	for _, node := range nodes {
		set(t, node, "maxmemory", "1")
	}
	look(redisreply.Full)
	for _, node := range nodes[1:] {
		set(t, node, "maxmemory", "0")
	}
	eventually.Holds(t, "one node alone is full", func() bool {
		return slices.Equal(w.Status().Nodes, []NodeTrouble{{nodes[0].Addr(), redisreply.Full}})
	})
	set(t, nodes[0], "maxmemory", "0")
	over()
	var got []string
	for line := range strings.Lines(told.String()) {
		m := regexp.MustCompile(`msg="([^"]*)"(?:.* node=(\S+))?`).FindStringSubmatch(line)
		got = append(got, strings.TrimSpace(m[1]+" "+m[2]))
	}
	want := []string{
		"a node of Redis is full (OOM): what it holds waits " + nodes[1].Addr(),
		"a node of Redis is well again " + nodes[1].Addr(),
		"a node of Redis does not answer: what it holds waits " + nodes[2].Addr(),
		"a node of Redis is well again " + nodes[2].Addr(),
		"Redis is full (OOM): nothing is accepted",
		"Redis is well again",
		"a node of Redis is full (OOM): what it holds waits " + nodes[0].Addr(),
		"a node of Redis is well again " + nodes[0].Addr(),
	}
	if !slices.Equal(got, want) {
		t.Errorf("told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
