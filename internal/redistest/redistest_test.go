//go:build unix

package redistest

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("REDISTEST_PANIC") != "" {
		startAndPanic()
	}
	goleak.VerifyTestMain(m, Dialing())
}

func TestRestartKeepsWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	s := Start(t, AppendOnly())
	c := s.Client(t)
	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Kill(t)
	if _, err := net.Dial("tcp", s.Addr()); err == nil {
		t.Error("a killed server accepts connections")
	}
	s.Restart(t)
	if got, err := c.Get(t.Context(), "k").Result(); err != nil || got != "v" {
		t.Errorf("after a restart: %q, %v", got, err)
	}
}

func TestPauseAcceptsAndNeverAnswers(t *testing.T) {
	t.Parallel()
	s := Start(t)
	opts := s.Options()
	opts.ReadTimeout = 50 * time.Millisecond
	opts.MaxRetries = -1
	c := redis.NewClient(opts)
	defer c.Close()
	s.Pause(t)
	err := c.Ping(t.Context()).Err()
	if timeout := net.Error(nil); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("paused: %v; want a time-out", err)
	}
	s.Resume(t)
	if err := s.Client(t).Ping(t.Context()).Err(); err != nil {
		t.Errorf("resumed: %v", err)
	}
}

func TestPassword(t *testing.T) {
	t.Parallel()
	s := Start(t, Password("secret"))
	if err := s.Client(t).Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
	c := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer c.Close()
	if err := c.Ping(t.Context()).Err(); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("without the password: %v", err)
	}
}

func TestSharedIsOneServerWithManyDatabases(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	if again := Shared(t); again != s {
		t.Error("Shared started a second server")
	}
	if a, b := Prefix(), Prefix(); a == b {
		t.Errorf("two prefixes are %q", a)
	}
	for range 2 {
		opts := s.Options()
		opts.DB = Database(t)
		c := redis.NewClient(opts)
		defer c.Close()
		if created, err := c.SetNX(t.Context(), "k", "v", 0).Result(); err != nil || !created {
			t.Errorf("database %d: created %v, %v", opts.DB, created, err)
		}
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	var addrs []string
	for _, node := range StartCluster(t, 3) {
		addrs = append(addrs, node.Addr())
	}
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs[:1]})
	defer c.Close()
	for i := range 100 {
		if err := c.Set(t.Context(), strconv.Itoa(i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	var masters atomic.Int64
	err := c.ForEachMaster(t.Context(), func(context.Context, *redis.Client) error { masters.Add(1); return nil })
	if err != nil || masters.Load() != 3 {
		t.Errorf("%d masters, %v", masters.Load(), err)
	}
}

// What a slot has moves with it, and is read by whoever asks its first master.
func TestReshard(t *testing.T) {
	t.Parallel()
	nodes := StartCluster(t, 3)
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}})
	defer c.Close()
	slot := int(c.ClusterKeySlot(t.Context(), "{a}").Val())
	for i := range 10 {
		if err := c.Set(t.Context(), "{a}"+strconv.Itoa(i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	from := NodeOf(t, nodes, "{a}")
	to := nodes[0]
	if from == to {
		to = nodes[1]
	}
	Reshard(t, from, to, nodes, Moving{Keys: 3}, slot)
	if n := to.Client(t).ClusterCountKeysInSlot(t.Context(), slot).Val(); n != 10 {
		t.Errorf("%d keys have moved", n)
	}
	for i := range 10 {
		if n, err := c.Get(t.Context(), "{a}"+strconv.Itoa(i)).Int(); n != i || err != nil {
			t.Errorf("%d is %d, %v", i, n, err)
		}
	}
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	master := Start(t, Password("secret"))
	sentinel := StartSentinel(t, master)
	c := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: MasterName, SentinelAddrs: []string{sentinel.Addr()}, Password: "secret",
	})
	defer c.Close()
	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Error(err)
	}
}

func TestMiniredis(t *testing.T) {
	t.Parallel()
	c := redis.NewClient(&redis.Options{Addr: Miniredis(t).Addr()})
	defer c.Close()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
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
