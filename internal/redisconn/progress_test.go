package redisconn

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/config"
)

// A read fails after a silence of the time-out, but not if bytes keep coming for longer in total.
func TestReadDeadlineRestartsAtBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		dial := progressHook{}.DialHook(func(context.Context, string, string) (net.Conn, error) { return ours, nil })
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

// slowly answers each PING after the delay.
func slowly(conn net.Conn, after time.Duration) {
	defer conn.Close()
	answers := map[string]string{"hello": "-ERR unknown command\r\n", "client": "+OK\r\n", "ping": "+PONG\r\n"}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		word := strings.ToLower(lines.Text())
		if word == "ping" {
			time.Sleep(after)
		}
		if answer, told := answers[word]; told {
			_, _ = io.WriteString(conn, answer)
		}
	}
}

// The configured time-out applies to each command of a pipeline.
func TestPipelineOutlastsCommandTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := settings(config.Single, "127.0.0.1:0")
		cfg.Timeout = 3 * time.Second
		opts, err := options(cfg, 1)
		must(t, err)
		opts.Dialer = func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go slowly(theirs, cfg.Timeout*2/3)
			return ours, nil
		}
		client := newConn(opts, 0).Client
		defer client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), cfg.Timeout)
		defer cancel()
		cmds, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.Ping(ctx)
			p.Ping(ctx)
			return nil
		})
		if err != nil || len(cmds) != 2 {
			t.Errorf("%d answers, %v", len(cmds), err)
		}
	})
}
