//go:build unix

package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// process is a child that does not outlive the test binary. A watchdog, a shell
// in a process group of its own, reads a pipe whose other end the test binary
// holds: the pipe closes when the binary ends, even by a panic or a SIGKILL,
// and the watchdog then kills the child.
type process struct {
	child    *exec.Cmd
	watchdog *exec.Cmd
	pipe     *os.File
	reaped   bool
}

// spawn starts a program. It uses no goroutine, so that leak checks stay quiet.
func spawn(name string, args ...string) (*process, error) {
	child := exec.Command(name, args...)
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := child.Start(); err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		_ = child.Process.Kill()
		_ = child.Wait()
		return nil, fmt.Errorf("redistest: %w", err)
	}
	defer read.Close()
	watchdog := exec.Command("sh", "-c", `read -r _; kill -KILL "$0" 2>/dev/null`, strconv.Itoa(child.Process.Pid))
	watchdog.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	watchdog.Stdin = read
	if err := watchdog.Start(); err != nil {
		_ = write.Close()
		_ = child.Process.Kill()
		_ = child.Wait()
		return nil, fmt.Errorf("redistest: %w", err)
	}
	return &process{child: child, watchdog: watchdog, pipe: write}, nil
}

func (p *process) pid() int { return p.child.Process.Pid }

func (p *process) signal(sig syscall.Signal) error {
	if p.exited() {
		return fmt.Errorf("redistest: the process %d has ended", p.pid())
	}
	return syscall.Kill(p.pid(), sig)
}

// exited reports whether the child has ended by itself.
func (p *process) exited() bool {
	if !p.reaped {
		pid, err := syscall.Wait4(p.pid(), nil, syscall.WNOHANG, nil)
		p.reaped = err == nil && pid == p.pid()
	}
	return p.reaped
}

// kill ends the child and its watchdog. The watchdog goes first, so that it
// cannot kill a process that has taken the child's number.
func (p *process) kill() {
	_ = p.watchdog.Process.Kill()
	_ = p.watchdog.Wait()
	_ = p.pipe.Close()
	if !p.exited() {
		_ = syscall.Kill(p.pid(), syscall.SIGKILL)
		_, _ = syscall.Wait4(p.pid(), nil, 0, nil)
		p.reaped = true
	}
	_ = p.child.Process.Release()
}
