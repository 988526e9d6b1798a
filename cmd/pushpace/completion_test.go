//go:build unix

package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace"

	"github.com/pushpace/pushpace/internal/words"
)

func TestCompletion(t *testing.T) {
	t.Parallel()
	dir := write(t, "config.yaml", string(pushpace.ConfigYAML))
	for _, c := range []struct {
		line []string
		want []string
	}{
		{[]string{"time"}, []string{"timeline"}},
		{[]string{"dead", ""}, []string{"list", "purge", "requeue", "show"}},
		{[]string{"send", "--priority", ""}, []string{"critical", "default", "bulk"}},
		{[]string{"send", "--app", ""}, []string{"demo"}},
		{[]string{"timeline", "ada", "--category", ""}, []string{"marketing", "orders", "security"}},
		{[]string{"timeline", "-c", "none.yaml", "--app", ""}, nil},
		{[]string{"dead", "requeue", "--reason", "Unreg"}, words.Reasons()},
	} {
		t.Run(strings.Join(c.line, " "), func(t *testing.T) {
			t.Parallel()
			p := start(t, setup{dir: dir}, append([]string{"__completeNoDesc"}, c.line...)...)
			if got := p.wait(t, 10*time.Second); got != exitDone {
				t.Fatalf("exit status %d: %s", got, &p.stderr)
			}
			var got []string
			for line := range strings.Lines(p.stdout.String()) {
				if !strings.HasPrefix(line, ":") { // the directive
					got = append(got, strings.TrimSpace(line))
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// What completion prints is a script that its shell reads.
func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			p := start(t, setup{}, "completion", shell)
			if got := p.wait(t, 10*time.Second); got != exitDone || !strings.Contains(p.stdout.String(), "pushpace") {
				t.Fatalf("exit status %d: %s", got, &p.stderr)
			}
			if path, err := exec.LookPath(shell); err == nil && shell != "powershell" {
				check := exec.Command(path, "-n")
				check.Stdin = strings.NewReader(p.stdout.String())
				if out, err := check.CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			}
		})
	}
}
