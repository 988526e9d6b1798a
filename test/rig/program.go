// Package rig runs pushpace as processes for tests: a Program, a Site with the shipped
// configuration, or a CrashSite with a Redis and providers that a test controls. A test's
// processes end with the test. Call Main from TestMain: it builds the program.
package rig

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/redistest"
)

// A Program is a running pushpace.
type Program struct {
	Cmd            *exec.Cmd
	Stdout, Stderr eventually.Log
	Done           chan struct{}
}

// Setup is where and how a program runs.
type Setup struct {
	Dir   string
	Env   []string // added to the test's environment without PUSHPACE_…
	Stdin io.Reader
	// Program is the path of the binary; empty means Binary.
	Program string
}

// Start starts the program, which ends with the test at the latest. A program that ends by itself must
// leave nothing in the temporary folder.
func Start(t *testing.T, s Setup, args ...string) *Program {
	t.Helper()
	p := &Program{Cmd: exec.Command(cmp.Or(s.Program, Binary), args...), Done: make(chan struct{})}
	p.Cmd.Dir, p.Cmd.Stdin, p.Cmd.Stdout, p.Cmd.Stderr = s.Dir, s.Stdin, &p.Stdout, &p.Stderr
	if s.Dir == "" {
		p.Cmd.Dir = t.TempDir()
	}
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "PUSHPACE_") {
			p.Cmd.Env = append(p.Cmd.Env, entry)
		}
	}
	temporary := t.TempDir()
	p.Cmd.Env = append(append(p.Cmd.Env, "TMPDIR="+temporary), s.Env...)
	Must(t, p.Cmd.Start())
	go func() {
		_ = p.Cmd.Wait() // the status is read from ProcessState
		close(p.Done)
	}()
	t.Cleanup(func() {
		_ = p.Cmd.Process.Kill()
		<-p.Done
		left, err := os.ReadDir(temporary)
		if err != nil || p.Cmd.ProcessState.Exited() && len(left) > 0 {
			t.Errorf("%v leaves %v behind, %v", args, left, err)
		}
	})
	return p
}

// Wait waits for the end and returns the exit status.
func (p *Program) Wait(t *testing.T) int {
	t.Helper()
	select {
	case <-p.Done:
		return p.Cmd.ProcessState.ExitCode()
	case <-time.After(eventually.Patience):
		t.Fatalf("%v does not end\nstdout: %s\nstderr: %s", p.Cmd.Args[1:], &p.Stdout, &p.Stderr)
		return -1
	}
}

func (p *Program) Terminate(t *testing.T) {
	t.Helper()
	Must(t, p.Cmd.Process.Signal(syscall.SIGTERM))
}

// Until waits for the condition.
func (p *Program) Until(t *testing.T, what string, f func() bool) {
	t.Helper()
	if !eventually.Within(eventually.Patience, f) {
		t.Fatalf("%s: does not come\nstdout: %s\nstderr: %s", what, &p.Stdout, &p.Stderr)
	}
}

// Write writes a file into a new temporary folder, and returns the folder.
func Write(t *testing.T, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	return dir
}

func (p *Program) HangUp(t *testing.T) {
	t.Helper()
	Must(t, p.Cmd.Process.Signal(syscall.SIGHUP))
}

// Says waits until the program has written a line with all the words n times.
func (p *Program) Says(t *testing.T, n int, words ...string) {
	t.Helper()
	p.Until(t, strings.Join(words, ", "), func() bool { return p.Said(words...) >= n })
}

func (p *Program) Said(words ...string) int {
	n := 0
lines:
	for line := range strings.Lines(p.Stderr.String()) {
		for _, word := range words {
			if !strings.Contains(line, word) {
				continue lines
			}
		}
		n++
	}
	return n
}

// Must fails the test at once if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Through returns the Setup of a program that knows only the URL of the API and a token.
func Through(url, token string) Setup {
	return Setup{Env: []string{"PUSHPACE_API=" + url, "PUSHPACE_API_TOKEN=" + token}}
}

// Finished holds the exit status and the output of a program that has ended.
type Finished struct {
	Status         int
	Stdout, Stderr string
}

// Serve starts the program as serve, and waits until it serves.
func (s Setup) Serve(t *testing.T) *Program {
	t.Helper()
	p := Start(t, s, "serve")
	p.Until(t, "serving", func() bool { return strings.Contains(p.Stderr.String(), "serving") })
	return p
}

// Run runs the program to its end.
func Run(t *testing.T, s Setup, args ...string) Finished {
	t.Helper()
	p := Start(t, s, args...)
	return Finished{p.Wait(t), p.Stdout.String(), p.Stderr.String()}
}

// The program's exit statuses.
const (
	Done     = 0
	Failed   = 1
	Misused  = 2 // wrong use or configuration
	Violated = 3 // accounting or limits violated
)

// Binary is the program, built once for all tests of a package.
var Binary string

// Main builds the program and runs the tests.
func Main(m *testing.M) {
	redistest.Parallel()
	dir, err := os.MkdirTemp("", "pushpace-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	Binary = filepath.Join(dir, "pushpace")
	status := 1
	// A test of another module builds the program with pushpace's own dependencies too.
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/pushpace/pushpace").CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "go list: %v\n%s", err, module)
	} else if out, err := exec.Command("go", "build", "-C", strings.TrimSpace(string(module)), "-buildvcs=false", "-o", Binary, "./cmd/pushpace").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
	} else {
		status = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(status)
}
