package cli

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// commands lists the command at the path and all its subcommands, as help pages do.
func commands(t *testing.T, path ...string) [][]string {
	t.Helper()
	all := [][]string{path}
	_, list, _ := strings.Cut(help(t, path...), "\nAvailable Commands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	for line := range strings.Lines(list) {
		if name := strings.Fields(line)[0]; name != "help" {
			all = append(all, commands(t, append(slices.Clone(path), name)...)...)
		}
	}
	return all
}

// help returns a command's help page. It replaces os.Stdout, so its test must not be parallel.
func help(t *testing.T, path ...string) string {
	t.Helper()
	r, w, err := os.Pipe() // the pipe's buffer is larger than a help page
	must(t, err)
	stdout := os.Stdout
	os.Stdout = w
	status := Run(append(slices.Clone(path), "--help"))
	os.Stdout = stdout
	_ = w.Close()
	page, err := io.ReadAll(r)
	if err != nil || status != exitDone {
		t.Fatalf("%v --help: exit status %d, %v", path, status, err)
	}
	return string(page)
}

// Every command has --json. Exceptions print nothing, or only JSON.
func TestEveryCommandHasHelpAndJSON(t *testing.T) {
	none := []string{"", "serve", "simulate", "limits", "dead", "token", "vapid", "completion", "limits export", "simulate subscription"}
	all := commands(t)
	if len(all) < 30 {
		t.Fatalf("--help lists %d commands", len(all))
	}
	for _, path := range all {
		name := strings.Join(path, " ")
		page := help(t, path...)
		if !strings.Contains(page, "Usage:\n  pushpace "+name) {
			t.Errorf("%s has no help page: %s", name, page)
		}
		if !slices.Contains(none, name) && !strings.HasPrefix(name, "completion ") && !strings.Contains(page, "--json") {
			t.Errorf("%s has no --json", name)
		}
	}
}
