//go:build unix

package redistest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// Clocks sets the clocks of the servers that it is given to, one after another, ahead of the
// machine's by so many whole seconds each, or behind. It is an option of StartCluster, and needs
// Linux and a C compiler: the test is skipped elsewhere.
func Clocks(t testing.TB, ahead ...time.Duration) Option {
	t.Helper()
	require(t)
	if runtime.GOOS != "linux" {
		t.Skip("sets a server's clock off by LD_PRELOAD, which is Linux's")
	}
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skipf("sets a server's clock off by a library: %v", err)
	}
	dir := t.TempDir()
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	if err := os.WriteFile(source, []byte(wrongClock), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command(compiler, "-shared", "-fPIC", "-O2", "-o", library, source).CombinedOutput(); err != nil {
		t.Fatalf("redistest: %v\n%s", err, text)
	}
	next := 0
	return func(s *Server) {
		seconds := int(ahead[next%len(ahead)] / time.Second)
		next++
		s.env = append(s.env, "LD_PRELOAD="+library, "REDISTEST_CLOCK_AHEAD="+strconv.Itoa(seconds))
	}
}

// wrongClock takes the place of what Redis reads the time of day with.
const wrongClock = `
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long ahead;

__attribute__((constructor)) static void set(void) {
  const char *text = getenv("REDISTEST_CLOCK_AHEAD");
  ahead = text ? atol(text) : 0;
}

int clock_gettime(clockid_t id, struct timespec *now) {
  int failed = syscall(SYS_clock_gettime, id, now);
  if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) now->tv_sec += ahead;
  return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec t;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &t)) return -1;
  now->tv_sec = t.tv_sec;
  now->tv_usec = t.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *now) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  if (now) *now = t.tv_sec;
  return t.tv_sec;
}
`
