//go:build e2e && unix

package e2e

import (
	"strings"
	"testing"

	"github.com/pushpace/pushpace"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/test/rig"
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
			s := &rig.Site{Client: server.Client(t)}
			s.Dir = rig.Write(t, "config.yaml", string(pushpace.ConfigYAML))
			s.Env = []string{"PUSHPACE_REDIS__ADDRESS=" + server.Addr()}
			if err := s.Client.Do(t.Context(), rule...).Err(); err != nil {
				t.Fatal(err)
			}
			if got := rig.Run(t, s.Setup, "check", "--redis"); got.Status != rig.Done {
				t.Fatalf("check: %+v", got)
			}
			s.Simulate(t)
			workers := s.Serve(t)
			s.Send(t, rig.Done, rig.Notification("n-1", "ada", "chat", "apns", "00")+rig.Notification("n-2", "ada", "chat", "apns", "00"))
			workers.Until(t, "both pushes", func() bool { return len(s.Ledger(t)) == 2 })
			if log := workers.Stderr.String(); strings.Count(log, "an idle worker is not woken") != 1 {
				t.Errorf("the log:\n%s", log)
			}
			s.Stop(t, workers)
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
			s := rig.Setup{Dir: rig.Write(t, "config.yaml", string(pushpace.ConfigYAML)), Env: []string{"PUSHPACE_REDIS__ADDRESS=" + server.Addr()}}
			for _, command := range [][]string{{"serve"}, {"check", "--redis"}} {
				got := rig.Run(t, s, command...)
				if got.Status != rig.Failed || !strings.Contains(got.Stderr, "give its user the rights") || !strings.Contains(got.Stderr, "'"+lacks+"'") {
					t.Errorf("%v: %+v", command, got)
				}
			}
		})
	}
}
