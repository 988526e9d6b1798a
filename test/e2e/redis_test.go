//go:build e2e && unix

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/test/rig"
)

// In every error state of Redis the log has one line with the cause, and probes, metrics and producers
// report the same state.
func TestRedisErrorStatesAreReported(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.AppendOnly())
	s := rig.SiteOn(t, server)
	s.Env = append(s.Env, "PUSHPACE_TELEMETRY__LISTEN=:0", "PUSHPACE_HTTP__LISTEN=:0", "PUSHPACE_LOG__FORMAT=json")
	p := s.Serve(t)
	log := p.Stderr.String()
	url := strings.TrimSuffix(regexp.MustCompile(`http://127\.0\.0\.1:\d+/metrics`).FindString(log), "metrics")
	api := regexp.MustCompile(`"msg":"api","url":"(http://127\.0\.0\.1:\d+)`).FindStringSubmatch(log)[1]
	later := strings.Replace(rig.Notification("later", "ada", "", "apns", "00"), `"title"`, `"not_before":"`+time.Now().Add(time.Hour).Format(time.RFC3339)+`","title"`, 1)
	s.Send(t, later)
	// logged returns the warnings and errors after the mark, but no failed requests
	logged := func(mark int) (lines []string) {
		for line := range strings.Lines(p.Stderr.String()[mark:]) {
			var entry struct{ Level, Msg string }
			if json.Unmarshal([]byte(line), &entry) == nil && (entry.Level == "WARN" || entry.Level == "ERROR") && entry.Msg != "a request failed" {
				lines = append(lines, line)
			}
		}
		return lines
	}
	do := func(args ...any) {
		t.Helper()
		rig.Must(t, s.Client.Do(t.Context(), args...).Err())
	}
	for _, c := range []struct {
		name       string
		begin, end func()
		says, why  string
		reads      bool // Redis still reads
	}{
		{"full", func() { do("CONFIG", "SET", "maxmemory", "1") }, func() { do("CONFIG", "SET", "maxmemory", "0") }, "is full (OOM)", "full", true},
		{"another password", func() {
			do("CONFIG", "SET", "requirepass", "changed")
			do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}, func() {
			options := server.Options()
			options.Password = "changed"
			admin := redis.NewClient(options)
			defer admin.Close()
			rig.Must(t, admin.ConfigSet(t.Context(), "requirepass", "").Err())
		}, "refuses the credentials (NOAUTH or WRONGPASS)", "refused", false},
		{"gone", func() { server.Kill(t) }, func() { server.Restart(t) }, "does not answer", "away", false},
	} {
		mark := len(p.Stderr.String())
		c.begin()
		p.Until(t, c.name+": probes are told", func() bool {
			status, text := rig.Fetch(t, url+"readyz")
			return status == http.StatusServiceUnavailable && strings.Contains(text, `{"name":"redis","state":"failed","detail":"`+c.says+`"}`)
		})
		p.Until(t, c.name+": metrics are told", func() bool {
			_, text := rig.Fetch(t, url+"metrics")
			return strings.Contains(text, "\npushpace_redis_up 0\n") && strings.Contains(text, `pushpace_redis_trouble{reason="`+c.why+`",redis="redis"} 1`) &&
				!strings.Contains(text, "pushpace_waiting 0\n")
		})
		status, text := rig.Ask(t, "", http.MethodPost, api+"/v1/notifications", rig.Notification("one", "ada", "", "apns", "00"))
		if status != http.StatusServiceUnavailable || !strings.Contains(text, `"detail":"Redis `+c.says+`."`) {
			t.Errorf("%s: a producer is told %d %s", c.name, status, text)
		}
		for _, path := range []string{"/v1/notifications/later", "/v1/overrides", "/v1/pauses", "/v1/dead-letters"} {
			if status, text := rig.Fetch(t, api+path); (status == http.StatusOK) != c.reads || !c.reads && status != http.StatusServiceUnavailable {
				t.Errorf("%s: %s answers %d %s", c.name, path, status, text)
			}
		}
		// the commands report the same state
		commands := [][]string{{"send", "--app", "demo", "--user", "ada", "--apns", "00", "--title", "t"}, {"audit"}}
		if !c.reads {
			commands = append(commands, []string{"status", "later"}, []string{"cancel", "--all", "--user", "ada", "--expect", "1"}, []string{"dead", "list"}, []string{"limits", "get", "--user", "ada"}, []string{"pauses"})
		}
		for _, args := range commands {
			if got := rig.Run(t, rig.Through(api, ""), args...); got.Status != rig.Failed || !strings.Contains(got.Stdout+got.Stderr, "answered 503 Service Unavailable: Redis "+c.says) {
				t.Errorf("%s: %s prints %+v", c.name, args, got)
			}
		}
		// the audit reads its sums in a transaction, which a full Redis refuses too
		if status, text := rig.Fetch(t, api+"/v1/audit"); status != http.StatusServiceUnavailable || !strings.Contains(text, c.says) {
			t.Errorf("%s: the audit answers %d %s", c.name, status, text)
		}
		if lines := logged(mark); len(lines) != 1 || !strings.Contains(lines[0], "Redis "+c.says+": nothing is accepted") {
			t.Errorf("%s: %d lines are logged:\n%s", c.name, len(lines), strings.Join(lines, ""))
		}
		c.end()
		p.Until(t, c.name+": it is over", func() bool {
			status, _ := rig.Fetch(t, url+"readyz")
			return status == http.StatusOK && strings.Contains(p.Stderr.String()[mark:], "Redis is well again")
		})
		if lines := logged(mark); len(lines) > 1 {
			t.Errorf("%s: %d lines are logged once it is over:\n%s", c.name, len(lines), strings.Join(lines, ""))
		}
	}
	s.Stop(t, p)
}

// While any one master of a Cluster is away, workers and producers start. Notifications on the other
// masters are accepted at once, and sent unless the pauses cannot be read. When the master is back,
// all others are accepted and sent.
func TestStartWithoutMaster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3, redistest.AppendOnly(), redistest.Args("--cluster-require-full-coverage", "no"))
	s := rig.SiteOn(t, nodes...)
	s.Simulate(t)
	const users = 30
	waited := 0
	for away, node := range nodes {
		ids := map[string]bool{} // of notifications that are not accepted yet
		for i := range users {
			ids[fmt.Sprintf("away-%d-%d", away, i)] = true
		}
		send := func() {
			var input strings.Builder
			for id := range ids {
				input.WriteString(rig.Notification(id, id, "security", "fcm", "phone-of-"+id))
			}
			with := s.Setup
			with.Stdin = strings.NewReader(input.String())
			p := rig.Start(t, with, "send", "--file", "-")
			p.Wait(t)
			for id := range ids {
				if strings.Contains(p.Stdout.String(), `"id":"`+id+`","known"`) {
					delete(ids, id)
				}
			}
		}
		arrived := func() int {
			at := map[string]bool{}
			for _, e := range s.Ledger(t) {
				if strings.HasPrefix(e.Notification, fmt.Sprintf("away-%d-", away)) {
					at[e.Notification] = true
				}
			}
			return len(at)
		}
		node.Kill(t)
		workers := s.Serve(t)
		send()
		accepted := users - len(ids)
		if accepted == 0 || accepted == users {
			t.Errorf("master %d is away, and %d are accepted", away, accepted)
		}
		says := func() bool {
			return strings.Contains(workers.Stderr.String(), "this worker pulls no jobs until")
		}
		workers.Until(t, "what lies elsewhere is sent, or waits", func() bool { return says() || arrived() == accepted })
		waits, back := says(), time.Now()
		node.Restart(t)
		workers.Until(t, "all is accepted", func() bool { send(); return len(ids) == 0 })
		workers.Until(t, "all is sent", func() bool { return arrived() == users })
		if waits {
			waited++
			for _, e := range s.Ledger(t) {
				if strings.HasPrefix(e.Notification, fmt.Sprintf("away-%d-", away)) && e.At.Before(back) {
					t.Errorf("%s is sent, and may be paused", e.Notification)
				}
			}
		}
		s.Stop(t, workers)
	}
	if waited != 2 { // the master with the pauses, and the master with the limits
		t.Errorf("the workers wait while one of %d masters is away, want 2 of the 3", waited)
	}
	sent := map[string]int{}
	for _, e := range s.Ledger(t) {
		sent[e.Notification]++
	}
	for id, n := range sent {
		if n != 1 {
			t.Errorf("%s is sent %d times", id, n)
		}
	}
}

// If a master is unreachable when a command starts, the command shows the last count of waiting
// notifications that the workers recorded for that master.
func TestOverviewWithoutMaster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3, redistest.AppendOnly(), redistest.Args("--cluster-require-full-coverage", "no"))
	s := rig.SiteOn(t, nodes...)
	const users = 30
	var input strings.Builder
	for i := range users {
		input.WriteString(strings.Replace(rig.Notification(fmt.Sprint("n-", i), fmt.Sprint("u-", i), "", "fcm", "t"), "{", `{"not_before":"2100-01-01T00:00:00Z","expires_at":"2100-01-02T00:00:00Z",`, 1))
	}
	s.Send(t, input.String())
	worker := s.Serve(t)
	seen := func() (all operate.Overview) {
		got := rig.Run(t, s.Setup, "overview", "--json")
		if err := json.Unmarshal([]byte(got.Stdout), &all); err != nil {
			t.Fatalf("%+v: %v", got, err)
		}
		return all
	}
	away := slices.DeleteFunc(slices.Clone(nodes), func(n *redistest.Server) bool {
		return n == redistest.NodeOf(t, nodes, "pushpace:{workers}:alive")
	})[0]
	of := func(o operate.Overview) redisconn.Node {
		i := slices.IndexFunc(o.Redis, func(n redisconn.Node) bool { return n.Address == away.Addr() })
		if i < 0 {
			t.Fatalf("%+v", o.Redis)
		}
		return o.Redis[i]
	}
	before := of(seen())
	if before.Waiting == nil || *before.Waiting == 0 || !before.WaitingAt.IsZero() {
		t.Fatalf("%+v", before)
	}
	away.Kill(t)
	worker.Until(t, "what waited there", func() bool {
		n := of(seen())
		return n.Error != "" && slices.Equal(n.Shards, before.Shards) && n.Waiting != nil && *n.Waiting == *before.Waiting && !n.WaitingAt.IsZero()
	})
	away.Restart(t)
	s.Stop(t, worker)
}

// Notifications are sent although a managed Redis refuses commands that pushpace can do without.
func TestServeDeliversWithoutOptionalCommands(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ renamed, rule string }{
		"taken away": {renamed: "CLIENT HELLO PING CONFIG COMMAND SELECT SCRIPT SUBSCRIBE PUBLISH DBSIZE"},
		"forbidden":  {rule: "-client -ping -info -config -command -select -script -subscribe -publish -dbsize"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var args []string
			for command := range strings.FieldsSeq(c.renamed) {
				args = append(args, "--rename-command", command, "")
			}
			server := redistest.Start(t, redistest.Args(args...))
			rule := []any{"ACL", "SETUSER", "default"}
			for r := range strings.FieldsSeq(c.rule) {
				rule = append(rule, r)
			}
			s := rig.SiteOn(t, server)
			rig.Must(t, s.Client.Do(t.Context(), rule...).Err())
			if got := rig.Run(t, s.Setup, "check", "--redis"); got.Status != rig.Done {
				t.Fatalf("check: %+v", got)
			}
			s.Simulate(t)
			workers := s.Serve(t)
			s.Send(t, rig.Notification("n-1", "ada", "chat", "apns", "00")+rig.Notification("n-2", "ada", "chat", "apns", "00"))
			workers.Until(t, "both pushes", func() bool { return len(s.Ledger(t)) == 2 })
			if log := workers.Stderr.String(); strings.Count(log, "an idle worker gets no wake-ups") != 1 {
				t.Errorf("the log:\n%s", log)
			}
			s.Stop(t, workers)
		})
	}
}
