//go:build unix

// Package redisserver runs private Redis servers, each on a free port of the loopback interface. They
// end with this process, even if it crashes.
package redisserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/subprocess"
)

// StartLimit bounds how long a server may take to answer.
const StartLimit = 20 * time.Second

// Options configure a Server.
type Options struct {
	Dir      string // for its files
	Log      string // "" for a file in Dir
	Config   string // a configuration file; "" for none
	Password string // "" for none
	Bus      bool   // port+10000 must be free too, for a Cluster's bus
	Args     []string
	// Reserve reports whether the server may use a port; nil allows any port.
	Reserve func(port int) bool
}

// Server is one redis-server process.
type Server struct {
	Options
	Port    int
	process *subprocess.Process // nil when not running
}

// Program returns the server's program: PUSHPACE_REDIS_SERVER, such as valkey-server; by default
// redis-server.
func Program() string { return cmp.Or(os.Getenv("PUSHPACE_REDIS_SERVER"), "redis-server") }

// Start starts a server on a free port. It makes several attempts, because another process may take
// a port first.
func Start(o Options) (*Server, error) {
	s := &Server{Options: o}
	var err error
	for range 5 {
		if s.Port, err = FreePort(s.Bus, s.Reserve); err != nil {
			return nil, err
		}
		if err = s.Launch(); err == nil {
			return s, nil
		}
		s.Stop()
	}
	return nil, err
}

// Addr returns the server's host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)) }

// ClientOptions returns the options of a client of the server.
func (s *Server) ClientOptions() *redis.Options {
	return &redis.Options{Addr: s.Addr(), Password: s.Password, ContextTimeoutEnabled: true}
}

// Running reports whether the server was launched and not stopped afterwards.
func (s *Server) Running() bool { return s.process != nil }

// Stop ends the server at once, as a crash would.
func (s *Server) Stop() {
	if s.process != nil {
		s.process.Kill()
		s.process = nil
	}
}

// Signal sends a signal to the server, which must be running.
func (s *Server) Signal(sig syscall.Signal) error { return s.process.Signal(sig) }

// Launch starts the process on the server's port and returns once it answers.
func (s *Server) Launch() error {
	args := []string{
		"--port", strconv.Itoa(s.Port), "--bind", "127.0.0.1",
		"--dir", s.Dir, "--logfile", s.logFile(), "--save", "",
		"--repl-diskless-sync-delay", "0", // a replica gets its copy at once, not after 5 s
	}
	args = append(args, s.Args...)
	if s.Config != "" {
		args = append([]string{s.Config}, args...)
	}
	p, err := subprocess.Start(exec.Command(Program(), args...))
	if err != nil {
		return err
	}
	s.process = p
	ctx, cancel := context.WithTimeout(context.Background(), StartLimit)
	defer cancel()
	err = Poll(ctx, func() error {
		if p.Exited() {
			return fatal{errors.New("the process ended")}
		}
		return s.answers(ctx)
	})
	if err != nil {
		return fmt.Errorf("%s on %s: %w%s", Program(), s.Addr(), err, s.lastLog())
	}
	return nil
}

// answers checks that the server on the port is the started process.
func (s *Server) answers(ctx context.Context) error {
	// A client would log each failure.
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		return err
	}
	_ = conn.Close()
	c := redis.NewClient(s.ClientOptions())
	defer c.Close()
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", s.process.PID())) {
		return fatal{errors.New("another process listens on the port")}
	}
	return nil
}

func (s *Server) logFile() string { return cmp.Or(s.Log, filepath.Join(s.Dir, "redis.log")) }

// lastLog returns the end of the server's log, for an error's text.
func (s *Server) lastLog() string {
	log, _ := os.ReadFile(s.logFile())
	if len(log) > 1000 {
		log = log[len(log)-1000:]
	}
	if len(log) == 0 {
		return ""
	}
	return "\n" + string(log)
}

// fatal is an error that ends Poll.
type fatal struct{ error }

// Poll calls f until it returns nil or a fatal error, or ctx ends.
func Poll(ctx context.Context, f func() error) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil || errors.As(err, new(fatal)) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}
