// Package repeats keeps the log short where others can write to it at will, by
// requests that fail, say, or jobs that cannot be read: of what repeats there is one
// line, and then a count.
package repeats

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// Within is how long lines of a kind are counted after the first.
const Within = time.Minute

// A Log writes the first line of each kind. Those of the kind that follow Within it are
// counted, and one line tells the count when that time is over; then it begins anew. The
// zero value is ready to use, by any goroutine. Close it.
type Log struct {
	mu    sync.Mutex
	kinds map[string]*repeated
}

// A repeated is a kind whose first line is written.
type repeated struct {
	timer *time.Timer
	again int
	tell  tell
}

// A tell writes a line of its kind.
type tell func(ctx context.Context, more ...slog.Attr)

// Tell writes or counts a line. Its kind is the message and the attributes of kind, which
// are from closed sets: a kind that is counted takes memory. The count has these too, the
// first line besides what more says. What the logger does not write is not counted.
func (l *Log) Tell(ctx context.Context, log *slog.Logger, level slog.Level, message string, kind []slog.Attr, more ...slog.Attr) {
	if !log.Enabled(ctx, level) {
		return
	}
	tell := func(ctx context.Context, more ...slog.Attr) {
		log.LogAttrs(ctx, level, message, append(slices.Clip(kind), more...)...)
	}
	if l.first(message, kind, tell) {
		tell(ctx, more...)
	}
}

// first reports whether it is the first of its kind, and counts it otherwise.
func (l *Log) first(message string, kind []slog.Attr, tell tell) bool {
	key := keyOf(message, kind)
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.kinds[key]; r != nil {
		r.again++
		return false
	}
	if l.kinds == nil {
		l.kinds = map[string]*repeated{}
	}
	l.kinds[key] = &repeated{timer: time.AfterFunc(Within, func() { l.end(key) }), tell: tell}
	return true
}

func keyOf(message string, kind []slog.Attr) string {
	var b strings.Builder
	b.WriteString(message)
	for _, a := range kind {
		b.WriteByte(0)
		b.WriteString(a.Value.String())
	}
	return b.String()
}

// end tells how many of the kind were counted.
func (l *Log) end(key string) {
	l.mu.Lock()
	r := l.kinds[key]
	delete(l.kinds, key)
	l.mu.Unlock()
	if r != nil {
		r.sum()
	}
}

// Close tells what was counted so far.
func (l *Log) Close() {
	l.mu.Lock()
	all := l.kinds
	l.kinds = nil
	l.mu.Unlock()
	for _, r := range all {
		r.timer.Stop()
		r.sum()
	}
}

// sum tells how many were counted, which are no more now.
func (r *repeated) sum() {
	if r.again > 0 {
		r.tell(context.Background(), slog.Int("again", r.again), slog.Duration("within", Within))
	}
}
