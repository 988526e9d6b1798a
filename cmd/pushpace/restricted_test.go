//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/pushpace/pushpace"
	"github.com/pushpace/pushpace/internal/redistest"
)

// A managed Redis refuses much that only people need: notifications go out all the same.
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
			s := &site{client: server.Client(t)}
			s.dir = write(t, "config.yaml", string(pushpace.ConfigYAML))
			s.env = []string{"PUSHPACE_REDIS__ADDRESS=" + server.Addr()}
			if err := s.client.Do(t.Context(), rule...).Err(); err != nil {
				t.Fatal(err)
			}
			if got := ended(t, s.setup, "check", "--redis"); got.status != exitDone {
				t.Fatalf("check: %+v", got)
			}
			s.simulate(t)
			workers := s.serve(t)
			s.send(t, exitDone, notification("n-1", "ada", "chat", "apns", "00")+notification("n-2", "ada", "chat", "apns", "00"))
			workers.until(t, "both pushes", func() bool { return len(s.ledger(t)) == 2 })
			if log := workers.stderr.String(); strings.Count(log, "an idle worker is not woken") != 1 {
				t.Errorf("the log:\n%s", log)
			}
			s.stop(t, workers)
		})
	}
}

// serve and check name the command that they lack, and the remedy.
func TestServeNamesCommandThatIsNeeded(t *testing.T) {
	t.Parallel()
	for _, lacks := range []string{"evalsha", "eval", "exists"} {
		t.Run(lacks, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			if err := server.Client(t).Do(t.Context(), "ACL", "SETUSER", "default", "-"+lacks).Err(); err != nil {
				t.Fatal(err)
			}
			s := setup{dir: write(t, "config.yaml", string(pushpace.ConfigYAML)), env: []string{"PUSHPACE_REDIS__ADDRESS=" + server.Addr()}}
			for _, command := range [][]string{{"serve"}, {"check", "--redis"}} {
				got := ended(t, s, command...)
				if got.status != exitFailed || !strings.Contains(got.stderr, "give its user the rights") || !strings.Contains(got.stderr, "'"+lacks+"'") {
					t.Errorf("%v: %+v", command, got)
				}
			}
		})
	}
}
