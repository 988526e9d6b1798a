package clock

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestClockSkewIsLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var offset atomic.Int64
		var log bytes.Buffer
		ctx, stop := context.WithCancel(t.Context())
		go Watch(ctx, slog.New(slog.NewTextHandler(&log, nil)), func() time.Duration { return time.Duration(offset.Load()) })
		for _, step := range []time.Duration{400 * time.Millisecond, -600 * time.Millisecond, -2 * time.Second, 0} {
			offset.Store(int64(step))
			time.Sleep(3 * SlowInterval)
		}
		stop()
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], "-600ms") || !strings.Contains(lines[1], "agrees with Redis's again") {
			t.Errorf("logged %q", lines)
		}
	})
}
