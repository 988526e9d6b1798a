//go:build unix

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/redistest"
)

// binary is the program: this test binary by another name, which saves a second link.
var binary string

func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"pushpace": main})
}

// Tests are run where the program is on the PATH.
type tests struct{ *testing.M }

func (m tests) Run() int {
	redistest.Parallel()
	var err error
	if binary, err = exec.LookPath("pushpace"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.M.Run()
}

// A program is a running pushpace.
type program struct {
	cmd            *exec.Cmd
	stdout, stderr output
	done           chan struct{}
}

// An output may be read while it grows.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// setup is where and how a program runs.
type setup struct {
	dir   string
	env   []string // besides the test's own without PUSHPACE_…
	stdin io.Reader
	// program is another one than was built for all tests.
	program string
}

// start starts the program, which ends with the test at the latest. When it ends
// by itself it leaves nothing in the temporary folder.
func start(t *testing.T, s setup, args ...string) *program {
	t.Helper()
	if testing.Short() {
		t.Skip("runs the program")
	}
	p := &program{cmd: exec.Command(cmp.Or(s.program, binary), args...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = s.dir, s.stdin, &p.stdout, &p.stderr
	if s.dir == "" {
		p.cmd.Dir = t.TempDir()
	}
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "PUSHPACE_") {
			p.cmd.Env = append(p.cmd.Env, entry)
		}
	}
	temporary := t.TempDir()
	p.cmd.Env = append(append(p.cmd.Env, "TMPDIR="+temporary), s.env...)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the status is read from ProcessState
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		left, err := os.ReadDir(temporary)
		if err != nil || p.cmd.ProcessState.Exited() && len(left) > 0 {
			t.Errorf("%v leaves %v behind, %v", args, left, err)
		}
	})
	return p
}

// wait waits for the end and answers the exit status.
func (p *program) wait(t *testing.T, within time.Duration) int {
	t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		t.Fatalf("did not end within %s\nstdout: %s\nstderr: %s", within, &p.stdout, &p.stderr)
		return -1
	}
}

func (p *program) terminate(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// until waits for the condition.
func (p *program) until(t *testing.T, what string, f func() bool) {
	t.Helper()
	if !eventually.Within(eventually.Patience, f) {
		t.Fatalf("%s: does not come\nstdout: %s\nstderr: %s", what, &p.stdout, &p.stderr)
	}
}

// write writes a file into a folder of the test's own and answers the folder.
func write(t *testing.T, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
