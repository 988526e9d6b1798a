//go:build unix

// Package subprocess runs programs that do not outlive this one.
package subprocess

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// A Process is a child of this process. A watchdog, a shell in its own process group, reads a pipe
// whose other end this process holds. When this process ends, even by a panic or a SIGKILL, the
// pipe closes and the watchdog kills the child. Not safe for concurrent use.
type Process struct {
	child    *exec.Cmd
	watchdog *exec.Cmd
	pipe     *os.File
	reaped   bool
	usage    Usage
}

// Usage is the consumption of a process until its end.
type Usage struct {
	CPU time.Duration
	RSS int64 // peak of resident memory, in bytes
}

// Start starts the command in its own process group, so that Ctrl-C does not reach the command. It
// starts no goroutine: the command's outputs must be files or nil.
func Start(child *exec.Cmd) (*Process, error) {
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := child.Start(); err != nil {
		return nil, err
	}
	p := &Process{child: child}
	if err := p.watch(); err != nil {
		_ = child.Process.Kill()
		_ = child.Wait()
		return nil, err
	}
	return p, nil
}

// watch starts the watchdog.
func (p *Process) watch() error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	p.pipe = write
	p.watchdog = exec.Command("sh", "-c", `read -r _; kill -KILL "$0" 2>/dev/null`, strconv.Itoa(p.PID()))
	p.watchdog.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.watchdog.Stdin = read
	if err := p.watchdog.Start(); err != nil {
		_ = write.Close()
		return err
	}
	return nil
}

// PID returns the process's ID.
func (p *Process) PID() int { return p.child.Process.Pid }

// Signal sends a signal to the process.
func (p *Process) Signal(sig syscall.Signal) error {
	if p.Exited() {
		return fmt.Errorf("the process %d has ended", p.PID())
	}
	return syscall.Kill(p.PID(), sig)
}

// Exited reports whether the process has ended.
func (p *Process) Exited() bool {
	if !p.reaped {
		p.reap(syscall.WNOHANG)
	}
	return p.reaped
}

// reap reads the exit status and the usage of the process, if it has ended.
func (p *Process) reap(options int) {
	var used syscall.Rusage
	pid, err := syscall.Wait4(p.PID(), nil, options, &used)
	for err == syscall.EINTR {
		pid, err = syscall.Wait4(p.PID(), nil, options, &used)
	}
	if p.reaped = err == nil && pid == p.PID(); p.reaped {
		p.usage = Usage{time.Duration(used.Utime.Nano() + used.Stime.Nano()), int64(used.Maxrss) * rssUnit}
	}
}

// Kill ends the process and its watchdog, and returns the usage of the process. The watchdog
// ends first, so that it cannot kill a later process with the child's ID.
func (p *Process) Kill() Usage {
	_ = p.watchdog.Process.Kill()
	_ = p.watchdog.Wait()
	_ = p.pipe.Close()
	if !p.Exited() {
		_ = syscall.Kill(p.PID(), syscall.SIGKILL)
		p.reap(0)
	}
	_ = p.child.Process.Release()
	return p.usage
}
