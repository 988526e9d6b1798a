//go:build unix

// Package redistest runs private Redis servers for tests. A server listens on a
// free port of the loopback, keeps its files in a temporary folder, and ends
// with its test, or with the test binary however that ends.
//
// Without a redis-server on the PATH a test that needs one is skipped, or fails
// when PUSHPACE_REQUIRE_REDIS is 1.
package redistest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// startLimit bounds how long a server may take to answer.
const startLimit = 20 * time.Second

// Option changes how a server is started.
type Option func(*Server)

// AppendOnly makes the server keep every acknowledged write through Kill and
// Restart.
func AppendOnly() Option {
	return Args("--appendonly", "yes", "--appendfsync", "always")
}

// Password makes the server ask for a password.
func Password(password string) Option {
	return func(s *Server) {
		s.password = password
		s.args = append(s.args, "--requirepass", password)
	}
}

// Args appends arguments to redis-server's command line.
func Args(args ...string) Option {
	return func(s *Server) { s.args = append(s.args, args...) }
}

// Server is one redis-server process.
type Server struct {
	port     int
	bus      bool // port+10000 must be free too, for a Cluster's bus
	config   string
	dir      string
	log      string // a file; "" for one in dir
	password string
	args     []string
	process  *process // nil when not running
}

// Start runs a server until the test ends.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	return start(t, &Server{dir: t.TempDir()}, opts...)
}

func start(t testing.TB, s *Server, opts ...Option) *Server {
	t.Helper()
	require(t)
	for _, opt := range opts {
		opt(s)
	}
	t.Cleanup(s.stop)
	if err := s.launchAnywhere(); err != nil {
		t.Fatal(err)
	}
	return s
}

// program is the server's: PUSHPACE_REDIS_SERVER, such as valkey-server, or redis-server.
func program() string { return cmp.Or(os.Getenv("PUSHPACE_REDIS_SERVER"), "redis-server") }

// require skips or fails the test when there is no such program.
func require(t testing.TB) {
	t.Helper()
	_, err := exec.LookPath(program())
	if err == nil {
		return
	}
	if os.Getenv("PUSHPACE_REQUIRE_REDIS") == "1" {
		t.Fatalf("PUSHPACE_REQUIRE_REDIS is 1, and this test needs %s: %v", program(), err)
	}
	t.Skipf("this test needs %s: %v", program(), err)
}

// Addr is the server's host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Options are a client's options for the server.
func (s *Server) Options() *redis.Options {
	return &redis.Options{Addr: s.Addr(), Password: s.password, ContextTimeoutEnabled: true}
}

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
	if s.process == nil {
		t.Fatal("redistest: the server is not running")
	}
	s.stop()
}

// Restart ends the server as Kill does, if it runs, and starts it again on the
// same port and folder.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.stop()
	if err := s.launch(); err != nil {
		t.Fatal(err)
	}
}

// Pause stops the server from answering: it still accepts connections, and
// says nothing until Resume.
func (s *Server) Pause(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// Resume ends a Pause.
func (s *Server) Resume(t testing.TB) { s.signal(t, syscall.SIGCONT) }

func (s *Server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if s.process == nil {
		t.Fatal("redistest: the server is not running")
	}
	if err := s.process.signal(sig); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) stop() {
	if s.process != nil {
		s.process.kill()
		s.process = nil
	}
}

// launchAnywhere launches on a free port. Another process may take the port
// first, hence the attempts.
func (s *Server) launchAnywhere() error {
	var err error
	for range 5 {
		if s.port, err = freePort(s.bus); err != nil {
			return err
		}
		if err = s.launch(); err == nil {
			return nil
		}
		s.stop()
	}
	return err
}

// launch starts the process and returns once it answers.
func (s *Server) launch() error {
	args := []string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1",
		"--dir", s.dir, "--logfile", s.logFile(), "--save", "",
		"--repl-diskless-sync-delay", "0", // a replica has its copy at once, not after 5 s
	}
	args = append(args, s.args...)
	if s.config != "" {
		args = append([]string{s.config}, args...)
	}
	p, err := spawn(program(), args...)
	if err != nil {
		return err
	}
	s.process = p
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	err = poll(ctx, func() error {
		if p.exited() {
			return fatal{errors.New("the process ended")}
		}
		return s.answers(ctx)
	})
	if err != nil {
		return fmt.Errorf("redistest: %s on %s: %w%s", program(), s.Addr(), err, s.lastLog())
	}
	return nil
}

// answers checks that the process on the port is the one that was started.
func (s *Server) answers(ctx context.Context) error {
	// A client would log each failure.
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		return err
	}
	_ = conn.Close()
	c := redis.NewClient(s.Options())
	defer c.Close()
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", s.process.pid())) {
		return fatal{errors.New("another process has the port")}
	}
	return nil
}

func (s *Server) logFile() string {
	if s.log != "" {
		return s.log
	}
	return filepath.Join(s.dir, "redis.log")
}

// lastLog is the end of the server's log, for an error.
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

// FreeAddress is a host:port of the loopback that nobody listens on, and that
// nobody is given who asks for any port.
func FreeAddress(t testing.TB) string {
	t.Helper()
	port, err := freePort(false)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// freePort finds a port that nobody listens on; with bus, port+10000 is free as
// well. They are below those that the system gives to whoever asks for any, so
// that none takes one between a Kill and a Restart, and no test binary gets one that
// another has got.
func freePort(bus bool) (int, error) {
	for range 100 {
		port := 12000 + rand.IntN(10000)
		if isFree(port) && (!bus || isFree(port+10000)) && reserve(port) {
			return port, nil
		}
	}
	return 0, errors.New("redistest: found no free port")
}

// reserve locks the port's file until the test binary ends, and reports whether nobody
// else had.
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

func isFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}

// fatal is an error that polling cannot cure.
type fatal struct{ error }

// poll calls f until it returns nil, a fatal error, or ctx ends.
func poll(ctx context.Context, f func() error) error {
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
