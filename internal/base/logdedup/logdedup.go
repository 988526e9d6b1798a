// Package logdedup keeps the log short if clients or users can cause lines at will, for example by
// failing requests or unreadable jobs: it writes the first of repeated lines, and then a count.
// Start with Log.
package logdedup

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// Within is how long the lines of a kind are counted after the first line.
const Within = time.Minute

// A Log writes the first line of each kind. It counts further lines of that kind for the time
// Within, then writes the count and begins anew. The zero value is ready to use. Safe for
// concurrent use. Close it.
type Log struct {
	mu    sync.Mutex
	kinds map[string]*repeated
}

// A repeated is a kind after its first line.
type repeated struct {
	timer *time.Timer
	again int
	write writeLine
}

// A writeLine writes a line of its kind.
type writeLine func(ctx context.Context, more ...slog.Attr)

// Write writes or counts a line. The line's kind is the message and the attributes in kind. Their
// values must be from closed sets, as each kind takes memory. The first line also has the
// attributes in more. Lines below the logger's level are not counted.
func (l *Log) Write(ctx context.Context, log *slog.Logger, level slog.Level, message string, kind []slog.Attr, more ...slog.Attr) {
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

// first reports whether the line is the first of its kind; if not, it counts the line.
func (l *Log) first(message string, kind []slog.Attr, tell writeLine) bool {
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
	l.kinds[key] = &repeated{timer: time.AfterFunc(Within, func() { l.end(key) }), write: tell}
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

// end writes the count of the kind.
func (l *Log) end(key string) {
	l.mu.Lock()
	r := l.kinds[key]
	delete(l.kinds, key)
	l.mu.Unlock()
	if r != nil {
		r.writeCount()
	}
}

// Close writes the counts so far.
func (l *Log) Close() {
	l.mu.Lock()
	all := l.kinds
	l.kinds = nil
	l.mu.Unlock()
	for _, r := range all {
		r.timer.Stop()
		r.writeCount()
	}
}

// writeCount writes the number of counted lines, if any.
func (r *repeated) writeCount() {
	if r.again > 0 {
		r.write(context.Background(), slog.Int("again", r.again), slog.Duration("within", Within))
	}
}
