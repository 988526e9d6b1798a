package queue

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A reply is an error reply of Redis.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

const outOfMemory = reply("OOM command not allowed when used memory > 'maxmemory'.")

// The log says that Redis writes again only after a successful write, not after an error without
// a reply.
func TestLogReportsWritesAgainAfterSuccess(t *testing.T) {
	t.Parallel()
	timeout := errors.New("i/o timeout")
	failing := func(errs ...error) func() error {
		return func() error {
			err := errs[0]
			errs = append(errs[1:], err)
			return err
		}
	}
	for name, c := range map[string]struct {
		begins func(r *refusals)
		goesOn func(r *refusals)
	}{
		"a pull without a reply": {
			func(r *refusals) { r.pulled("q", outOfMemory) },
			func(r *refusals) { r.pulled("q", timeout); r.pulled("q", context.Canceled) },
		},
		"an end given up": {
			func(r *refusals) { _ = r.persist(t.Context(), time.Millisecond, failing(outOfMemory)) },
			func(r *refusals) { r.pulled("q", timeout) },
		},
		"an end without a reply": {
			func(r *refusals) { _ = r.persist(t.Context(), time.Millisecond, failing(outOfMemory, timeout)) },
			func(r *refusals) { r.pulled("q", timeout) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log strings.Builder
			r := &refusals{log: slog.New(slog.NewTextHandler(&log, nil))}
			c.begins(r)
			c.goesOn(r)
			if !r.blocks("q") || r.recording() || strings.Contains(log.String(), "writes again") {
				t.Errorf("blocks %t, recording %t, log:\n%s", r.blocks("q"), r.recording(), &log)
			}
			r.pulled("q", nil)
			if r.blocks("q") || strings.Count(log.String(), "refuses to write") != 1 || strings.Count(log.String(), "writes again") != 1 {
				t.Errorf("blocks %t, log:\n%s", r.blocks("q"), &log)
			}
		})
	}
}
