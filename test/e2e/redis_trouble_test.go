//go:build e2e && unix

package e2e

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/test/rig"
)

// Whatever trouble Redis is in, the log has one line with the cause while it
// lasts, and probes, metrics and producers are told the same.
func TestRedisInTrouble(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.AppendOnly())
	s := &rig.Site{Client: server.Client(t)}
	s.Dir = rig.Write(t, "config.yaml", string(pushpace.ConfigYAML))
	s.Env = []string{"PUSHPACE_REDIS__ADDRESS=" + server.Addr(), "PUSHPACE_TELEMETRY__LISTEN=:0", "PUSHPACE_HTTP__LISTEN=:0", "PUSHPACE_LOG__FORMAT=json"}
	p := s.Serve(t)
	log := p.Stderr.String()
	url := strings.TrimSuffix(regexp.MustCompile(`http://127\.0\.0\.1:\d+/metrics`).FindString(log), "metrics")
	api := regexp.MustCompile(`"msg":"api","url":"(http://127\.0\.0\.1:\d+)`).FindStringSubmatch(log)[1]
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	later := strings.Replace(rig.Notification("later", "ada", "", "apns", "00"), `"title"`, `"not_before":"`+time.Now().Add(time.Hour).Format(time.RFC3339)+`","title"`, 1)
	s.Send(t, rig.Done, later)
	// told are the lines above the level info since the mark, but for those of requests
	told := func(mark int) (lines []string) {
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
		if err := s.Client.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name       string
		begin, end func()
		says, why  string
		reads      bool // goes on
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
			if err := admin.ConfigSet(t.Context(), "requirepass", "").Err(); err != nil {
				t.Fatal(err)
			}
		}, "refuses the credentials (NOAUTH or WRONGPASS)", "refused", false},
		{"gone", func() { server.Kill(t) }, func() { server.Restart(t) }, "does not answer", "away", false},
	} {
		mark := len(p.Stderr.String())
		c.begin()
		p.Until(t, c.name+": probes are told", func() bool {
			status, text := rig.Fetch(t, client, url+"readyz")
			return status == http.StatusServiceUnavailable && strings.Contains(text, `{"name":"redis","state":"failed","detail":"`+c.says+`"}`)
		})
		p.Until(t, c.name+": metrics are told", func() bool {
			_, text := rig.Fetch(t, client, url+"metrics")
			return strings.Contains(text, "\npushpace_redis_up 0\n") && strings.Contains(text, `pushpace_redis_trouble{reason="`+c.why+`",redis="redis"} 1`) &&
				!strings.Contains(text, "pushpace_waiting 0\n")
		})
		response, err := client.Post(api+"/v1/notifications", "application/json", strings.NewReader(rig.Notification("one", "ada", "", "apns", "00")))
		if err != nil {
			t.Fatal(err)
		}
		var problem struct{ Detail string }
		if err := json.NewDecoder(response.Body).Decode(&problem); err != nil || response.StatusCode != http.StatusServiceUnavailable || problem.Detail != "Redis "+c.says+"." {
			t.Errorf("%s: a producer is told %d %+v, %v", c.name, response.StatusCode, problem, err)
		}
		_ = response.Body.Close()
		for _, path := range []string{"/v1/notifications/later", "/v1/limits", "/v1/pauses", "/v1/dead-letters"} {
			if status, text := rig.Fetch(t, client, api+path); (status == http.StatusOK) != c.reads || !c.reads && status != http.StatusServiceUnavailable {
				t.Errorf("%s: %s answers %d %s", c.name, path, status, text)
			}
		}
		// so are those who use the commands
		commands := [][]string{{"send", "--app", "demo", "--user", "ada", "--apns", "00", "--title", "t"}, {"audit"}}
		if !c.reads {
			commands = append(commands, []string{"status", "later"}, []string{"cancel", "--all", "--user", "ada", "--expect", "1"}, []string{"dead", "list"}, []string{"limits", "get", "--user", "ada"}, []string{"pauses"})
		}
		for _, args := range commands {
			if got := rig.Run(t, rig.Through(api, ""), args...); got.Status != rig.Failed || !strings.Contains(got.Stdout+got.Stderr, "answered 503 Service Unavailable: Redis "+c.says) {
				t.Errorf("%s: %s tells %+v", c.name, args, got)
			}
		}
		// one instant's sums are a transaction, which a full Redis refuses too
		if status, text := rig.Fetch(t, client, api+"/v1/audit"); status != http.StatusServiceUnavailable || !strings.Contains(text, c.says) {
			t.Errorf("%s: the audit answers %d %s", c.name, status, text)
		}
		if lines := told(mark); len(lines) != 1 || !strings.Contains(lines[0], "Redis "+c.says+": nothing is accepted") {
			t.Errorf("%s: told %d lines:\n%s", c.name, len(lines), strings.Join(lines, ""))
		}
		c.end()
		p.Until(t, c.name+": it is over", func() bool {
			status, _ := rig.Fetch(t, client, url+"readyz")
			return status == http.StatusOK && strings.Contains(p.Stderr.String()[mark:], "Redis is well again")
		})
		if lines := told(mark); len(lines) > 1 {
			t.Errorf("%s: told %d lines once it is over:\n%s", c.name, len(lines), strings.Join(lines, ""))
		}
	}
	s.Stop(t, p)
}
