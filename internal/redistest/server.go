//go:build unix

// Package redistest runs private Redis servers for tests. A server listens on a free port of the
// loopback interface, and keeps its files in a temporary folder. It ends with its test, or with the
// test binary, even if that crashes.
//
// Without redis-server on the PATH, a test that needs a server is skipped, or fails if
// PUSHPACE_REQUIRE_REDIS is 1.
package redistest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redisserver"
)

// startLimit bounds how long a server may take to answer.
const startLimit = redisserver.StartLimit

// Option changes how a server is started.
type Option func(*redisserver.Options)

// AppendOnly makes the server persist every acknowledged write across Kill and Restart.
func AppendOnly() Option {
	return Args("--appendonly", "yes", "--appendfsync", "always")
}

// Password makes the server require a password.
func Password(password string) Option {
	return func(o *redisserver.Options) {
		o.Password = password
		o.Args = append(o.Args, "--requirepass", password)
	}
}

// Args appends arguments to redis-server's command line.
func Args(args ...string) Option {
	return func(o *redisserver.Options) { o.Args = append(o.Args, args...) }
}

// Server is one redis-server process.
type Server struct{ server *redisserver.Server }

// Start runs a server until the test ends.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	return start(t, redisserver.Options{Dir: t.TempDir()}, opts...)
}

func start(t testing.TB, o redisserver.Options, opts ...Option) *Server {
	t.Helper()
	require(t)
	for _, opt := range opts {
		opt(&o)
	}
	o.Reserve = reserve
	server, err := redisserver.Start(o)
	if err != nil {
		t.Fatal("redistest: ", err)
	}
	t.Cleanup(server.Stop)
	return &Server{server}
}

// require skips or fails the test if the server's program is missing.
func require(t testing.TB) {
	t.Helper()
	program := redisserver.Program()
	_, err := exec.LookPath(program)
	if err == nil {
		return
	}
	if os.Getenv("PUSHPACE_REQUIRE_REDIS") == "1" {
		t.Fatalf("PUSHPACE_REQUIRE_REDIS is 1, and this test needs %s: %v", program, err)
	}
	t.Skipf("this test needs %s: %v", program, err)
}

// Addr returns the server's host:port.
func (s *Server) Addr() string { return s.server.Addr() }

// Options returns the options of a client of the server.
func (s *Server) Options() *redis.Options { return s.server.ClientOptions() }

// Client connects to the server until the test ends.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	c := redis.NewClient(s.Options())
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Kill ends the server at once, as a crash would.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	if !s.server.Running() {
		t.Fatal("redistest: the server is not running")
	}
	s.server.Stop()
}

// Restart starts the server again, on the same port and folder; a running server it ends first, as
// Kill does.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.server.Stop()
	if err := s.server.Launch(); err != nil {
		t.Fatal("redistest: ", err)
	}
}

// Pause stops the server's process. Until Resume, connections to it succeed, but get no answer.
func (s *Server) Pause(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// Resume ends a Pause.
func (s *Server) Resume(t testing.TB) { s.signal(t, syscall.SIGCONT) }

func (s *Server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if !s.server.Running() {
		t.Fatal("redistest: the server is not running")
	}
	if err := s.server.Signal(sig); err != nil {
		t.Fatal("redistest: ", err)
	}
}

// FreeAddress returns an unused host:port of the loopback interface, outside the range of ports that
// the system assigns.
func FreeAddress(t testing.TB) string {
	t.Helper()
	port, err := redisserver.FreePort(false, reserve)
	if err != nil {
		t.Fatal("redistest: ", err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// reserve locks the port's file until the test binary ends; it returns false if the file is locked.
func reserve(port int) bool {
	dir := filepath.Join(os.TempDir(), "pushpace-redistest-ports")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return false
	}
	file, err := syscall.Open(filepath.Join(dir, strconv.Itoa(port)), syscall.O_CREAT|syscall.O_RDWR|syscall.O_CLOEXEC, 0o666)
	if err != nil {
		return false
	}
	if err := syscall.Flock(file, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = syscall.Close(file)
		return false
	}
	return true
}
