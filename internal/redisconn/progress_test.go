package redisconn

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/config"
)

// A wait is over when nothing has come for as long as it may last, and not when all that
// has come took longer.
func TestAWaitGoesOnFromWhatHasCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		dial := progresses{}.DialHook(func(context.Context, string, string) (net.Conn, error) { return ours, nil })
		conn, err := dial(t.Context(), "", "")
		must(t, err)
		const wait, answers = time.Second, 5
		go func() {
			defer theirs.Close()
			for range answers {
				time.Sleep(wait * 3 / 4)
				_, _ = theirs.Write([]byte("+"))
			}
			time.Sleep(time.Minute)
		}()
		must(t, conn.SetReadDeadline(time.Now().Add(wait)))
		for i := range answers {
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				t.Fatalf("answer %d: %v", i, err)
			}
		}
		silent := time.Now()
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(silent) != wait {
			t.Errorf("silence: %v after %v; want a time-out after %v", err, time.Since(silent), wait)
		}
		must(t, conn.SetDeadline(time.Time{}))
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || time.Since(silent) != time.Minute {
			t.Errorf("without an end: %v after %v", err, time.Since(silent))
		}
	})
}

// answering is a server on a port of its own that answers each PING after so long.
func answering(t *testing.T, after time.Duration) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					answer := ""
					switch strings.ToLower(lines.Text()) {
					case "hello":
						answer = "-ERR unknown command\r\n"
					case "client":
						answer = "+OK\r\n"
					case "ping":
						slow := time.NewTimer(after)
						<-slow.C
						answer = "+PONG\r\n"
					}
					if _, err := io.WriteString(conn, answer); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		conns.Wait()
	})
	return listener.Addr().String()
}

// Each of a pipeline's commands has the time-out, as the configuration says.
func TestAPipelineIsAnsweredForLongerThanOneCommand(t *testing.T) {
	t.Parallel()
	const timeout = 3 * time.Second
	cfg := settings(config.Single, answering(t, timeout*2/3))
	cfg.Timeout = timeout
	opts, err := options(cfg, 1)
	must(t, err)
	client := newConn(opts, 0).Client
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	cmds, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for range 2 {
			p.Ping(ctx)
		}
		return nil
	})
	if err != nil || len(cmds) != 2 {
		t.Errorf("%d answers, %v", len(cmds), err)
	}
}
