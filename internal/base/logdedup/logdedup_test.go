package logdedup

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// logger returns a logger and its output.
func logger(level slog.Level) (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})), &b
}

func status(n int) []slog.Attr { return []slog.Attr{slog.Int("status", n)} }

// For each kind the Log writes the first line and, a minute later, the count; then it begins anew.
func TestRepeatedLinesAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l Log
		log, text := logger(slog.LevelInfo)
		fail := func(n, client int) {
			l.Write(t.Context(), log, slog.LevelWarn, "failed", status(n), slog.Int("client", client))
		}
		for i := range 1000 {
			fail(400, i)
		}
		time.Sleep(Within / 2)
		fail(401, 1)
		fail(400, 1)
		time.Sleep(Within / 2)
		synctest.Wait()
		fail(400, 2)
		time.Sleep(2 * Within)
		synctest.Wait()
		l.Close()
		want := []string{
			"level=WARN msg=failed status=400 client=0", "level=WARN msg=failed status=401 client=1",
			"level=WARN msg=failed status=400 again=1000 within=1m0s", "level=WARN msg=failed status=400 client=2",
		}
		if got := strings.Split(strings.TrimSpace(text.String()), "\n"); !slices.Equal(got, want) {
			t.Errorf("%s", text)
		}
	})
}

// A line below the logger's level is neither written nor counted.
func TestDisabledLevelIsNotCounted(t *testing.T) {
	t.Parallel()
	var l Log
	log, text := logger(slog.LevelWarn)
	for range 2 {
		l.Write(t.Context(), log, slog.LevelInfo, "failed", nil)
	}
	if l.Close(); text.Len() > 0 || l.kinds != nil {
		t.Errorf("%s", text)
	}
}

// With many writers and a Close at any time, the lines and counts add up.
func TestCountsAddUp(t *testing.T) {
	t.Parallel()
	var l Log
	var b bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&b, nil))
	const writers, each = 8, 1000
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for i := range each {
				l.Write(context.Background(), log, slog.LevelInfo, "failed", status(400+i%2))
				if i%100 == 0 {
					l.Close()
				}
			}
		})
	}
	all.Wait()
	l.Close()
	told := map[int]int{}
	for line := range strings.Lines(b.String()) {
		var entry struct{ Status, Again int }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		told[entry.Status] += max(1, entry.Again)
	}
	if want := writers * each / 2; told[400] != want || told[401] != want {
		t.Errorf("%v", told)
	}
}
