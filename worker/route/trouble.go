package route

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/pushpace/pushpace/providers"
)

// LongestCause bounds, in bytes, the text of an error in logs, snapshots and records: a provider
// may answer with a page.
const LongestCause = 300

// CauseOf is the text of an error, as far as it is told.
func CauseOf(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	return text[:min(len(text), LongestCause)]
}

// A tale is what the log tells of a route's trouble: one line when it begins, one
// when it ends, and one with each new reason in between. The zero value is that
// there is nothing to tell.
type tale struct {
	since  time.Time // zero while nothing is wrong
	calm   time.Time // since when it seems to be over; zero while it does not
	logged map[line]bool
}

// A line is what makes one different from others of the same trouble.
type line struct {
	reason providers.Reason
	length time.Duration // of the closing, for a refusal; the log reports each once
}

// news is what there is to tell.
type news int

const (
	nothing news = iota
	begins
	goesOn // for another reason, or for longer
	ends
)

// hear takes in how the route is, and returns what is news.
func (t *tale) hear(now time.Time, s *Status, length, calm time.Duration) news {
	if s.Breaker == BreakerClosed && s.Pause == "" {
		switch {
		case t.since.IsZero():
		case t.calm.IsZero():
			t.calm = now
		case now.Sub(t.calm) >= calm:
			return ends
		}
		return nothing
	}
	t.calm = time.Time{}
	l := line{cmp.Or(s.Pause, s.Trouble.Reason), length}
	if l.reason == "" || t.logged[l] {
		return nothing
	}
	begun := !t.since.IsZero()
	if !begun {
		t.since, t.logged = now, map[line]bool{}
		if !s.Trouble.Since.IsZero() {
			t.since = s.Trouble.Since
		}
	}
	t.logged[l], t.logged[line{reason: l.reason}] = true, true
	if begun {
		return goesOn
	}
	return begins
}

// LogTroubles has the log tell which providers are in trouble, and of which quotas nobody
// knows what is left, and why, of what is new since the last call.
func (rs *Routes) LogTroubles(ctx context.Context) {
	now := time.Now()
	for r := range rs.All() {
		rs.logTrouble(ctx, now, r)
	}
	rs.logQuotas(ctx)
}

func (rs *Routes) logTrouble(ctx context.Context, now time.Time, r *Route) {
	k := r.state.known(now)
	s := r.status(now, k)
	attrs := []slog.Attr{slog.String("app", r.App), slog.String("platform", string(r.Platform))}
	length := time.Duration(0)
	if k.refusals > 0 {
		length = refusedFor(rs.Paused, k.refusals-1)
	}
	what := r.tale.hear(now, &s, length, rs.Calm)
	switch what {
	case nothing:
		return
	case ends:
		lasted := r.tale.calm.Sub(r.tale.since)
		r.tale = tale{}
		rs.Log.LogAttrs(ctx, slog.LevelInfo, "the app's provider works again", append(attrs, slog.Duration("lasted", lasted.Round(time.Second)))...)
		return
	}
	level, message := slog.LevelWarn, "the app's provider is in trouble: its notifications wait on the queue"
	switch {
	case k.refusals > 0 && what == begins:
		level, message = slog.LevelError, "the app is misconfigured: its notifications are held until the configuration is fixed"
	case k.refusals > 0:
		message = "the app is still misconfigured"
	case s.Pause != "":
		message = "the app's provider asks for a pause: its notifications wait on the queue"
	case what == goesOn:
		message = "the app's provider is still in trouble"
	}
	attrs = append(attrs, slog.String("reason", string(cmp.Or(s.Pause, s.Trouble.Reason))), slog.String("error", cmp.Or(s.Trouble.Error, k.closing.err)),
		slog.Time("since", r.tale.since), slog.Int("waiting", s.Queued))
	if t := s.Trouble; t.Failures > 0 {
		attrs = append(attrs, slog.Int("failures", t.Failures), slog.Int("answers", t.Answers))
	}
	if s.Pause != "" {
		attrs = append(attrs, slog.Time("until", s.Until))
	} else {
		attrs = append(attrs, slog.Time("next_look", s.Trouble.Next))
	}
	rs.Log.LogAttrs(ctx, level, message, attrs...)
}
