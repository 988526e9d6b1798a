//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// commands are all that --help knows, by walking it from the program's own.
func commands(t *testing.T, path ...string) [][]string {
	t.Helper()
	all := [][]string{path}
	inCommands := false
	for line := range strings.Lines(help(t, path...)) {
		switch fields := strings.Fields(line); {
		case strings.HasPrefix(line, "Available Commands:"):
			inCommands = true
		case len(fields) == 0:
			inCommands = false
		case inCommands && fields[0] != "help":
			all = append(all, commands(t, append(slices.Clone(path), fields[0])...)...)
		}
	}
	return all
}

func help(t *testing.T, path ...string) string {
	t.Helper()
	p := start(t, setup{}, append(slices.Clone(path), "--help")...)
	if got := p.wait(t, 10*time.Second); got != exitDone {
		t.Fatalf("%v --help: exit status %d: %s", path, got, &p.stderr)
	}
	return p.stdout.String()
}

// Every command has a man page with all of its flags, which roff takes.
func TestManPages(t *testing.T) {
	aboutProcesses(t, "runs the program for each of its commands")
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "man1")
	p := start(t, setup{}, "man", dir)
	if got := p.wait(t, 10*time.Second); got != exitDone {
		t.Fatalf("exit status %d: %s", got, &p.stderr)
	}
	all := commands(t)
	if len(all) < 15 {
		t.Fatalf("only %d commands: %v", len(all), all)
	}
	var pages []string
	for _, path := range all {
		name := strings.Join(append([]string{"pushpace"}, path...), "-") + ".1"
		pages = append(pages, name)
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if host, err := os.Hostname(); err == nil && strings.Contains(string(text), "@"+strings.ReplaceAll(host, "-", `\-`)) {
			t.Errorf("%s: names this machine", name)
		}
		for field := range strings.FieldsSeq(help(t, path...)) {
			flag := strings.Trim(field, `,"`)
			if strings.HasPrefix(flag, "--") && !strings.Contains(string(text), strings.ReplaceAll(flag, "-", `\-`)) {
				t.Errorf("%s: no %s", name, flag)
			}
		}
		if groff, err := exec.LookPath("groff"); err == nil {
			out, err := exec.Command(groff, "-man", "-Tutf8", "-ww", "-z", filepath.Join(dir, name)).CombinedOutput()
			if err != nil || len(out) > 0 {
				t.Errorf("%s: %v: %s", name, err, out)
			}
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != len(pages) {
		t.Errorf("%d files for %d commands, %v", len(files), len(pages), err)
	}
}

func TestRoff(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain":           "plain",
		"--flag a\\b":     `\-\-flag a\eb`,
		"ID …":            `ID \[u2026]`,
		".SH not\n'it is": `\&.SH not` + "\n" + `\&'it is`,
	} {
		if got := roff(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
