//go:build unix

package redistest

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("REDISTEST_PANIC") != "" {
		startAndPanic()
	}
	goleak.VerifyTestMain(m, Dialing())
}

// TestNothingOutlivesAPanic runs this test binary again, as a program that
// starts a server, pauses it and panics.
func TestNothingOutlivesAPanic(t *testing.T) {
	t.Parallel()
	require(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), "REDISTEST_PANIC="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the program did not panic")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err = poll(ctx, func() error {
		if alive(pid) {
			return errors.New("it is alive")
		}
		return nil
	})
	if err != nil {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		t.Errorf("redis-server %d after the panic: %v", pid, err)
	}
}

// alive reports whether a process exists and is not a zombie that waits for
// some init to collect it.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(out)), "Z")
}

func startAndPanic() {
	s := &Server{dir: os.Getenv("REDISTEST_PANIC")}
	if err := s.launchAnywhere(); err != nil {
		panic(err)
	}
	_ = s.process.signal(syscall.SIGSTOP)
	_, _ = os.Stdout.WriteString(strconv.Itoa(s.process.pid()) + "\n")
	panic("as asked")
}
