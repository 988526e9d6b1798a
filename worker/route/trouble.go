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

// CauseOf returns the error's text, cut to LongestCause.
func CauseOf(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	return text[:min(len(text), LongestCause)]
}

// A troubleLog is the log state of a route's trouble: it logs the beginning, the end, and each new reason
// in between. The zero value means no trouble.
type troubleLog struct {
	since  time.Time // zero without trouble
	calm   time.Time // since when the route works again; zero while it does not
	logged map[logKey]bool
}

// A logKey identifies a log message of a trouble, so that it is logged once.
type logKey struct {
	reason providers.Reason
	length time.Duration // length of a refusal's closing
}

// An event is a reason to log.
type event int

const (
	noEvent event = iota
	begins
	goesOn // for a new reason, or for longer
	ends
)

// observe takes the current status, and returns the event to log.
func (t *troubleLog) observe(now time.Time, s *Status, length, calm time.Duration) event {
	if s.State == Open && s.Pause == "" {
		switch {
		case t.since.IsZero():
		case t.calm.IsZero():
			t.calm = now
		case now.Sub(t.calm) >= calm:
			return ends
		}
		return noEvent
	}
	t.calm = time.Time{}
	l := logKey{cmp.Or(s.Pause, s.Trouble.Reason), length}
	if l.reason == "" || t.logged[l] {
		return noEvent
	}
	begun := !t.since.IsZero()
	if !begun {
		t.since, t.logged = now, map[logKey]bool{}
		if !s.Trouble.Since.IsZero() {
			t.since = s.Trouble.Since
		}
	}
	t.logged[l], t.logged[logKey{reason: l.reason}] = true, true
	if begun {
		return goesOn
	}
	return begins
}

// LogTroubles logs changes since the last call: providers in trouble, with the reason, and quotas
// with unknown remaining units.
func (rs *Routes) LogTroubles(ctx context.Context) {
	now := time.Now()
	for r := range rs.All() {
		rs.logTrouble(ctx, now, r)
	}
	rs.logQuotas(ctx)
}

func (rs *Routes) logTrouble(ctx context.Context, now time.Time, r *Route) {
	k := r.state.view(now)
	s := r.status(now, k)
	attrs := []slog.Attr{slog.String("app", r.App), slog.String("platform", string(r.Platform))}
	length := time.Duration(0)
	if k.refusals > 0 {
		length = refusedFor(rs.Paused, k.refusals-1)
	}
	what := r.troubleLog.observe(now, &s, length, rs.Calm)
	switch what {
	case noEvent:
		return
	case ends:
		lasted := r.troubleLog.calm.Sub(r.troubleLog.since)
		r.troubleLog = troubleLog{}
		rs.Log.LogAttrs(ctx, slog.LevelInfo, "the app's provider works again", append(attrs, slog.Duration("lasted", lasted.Round(time.Second)))...)
		return
	}
	level, message := slog.LevelWarn, "the app's provider is in trouble: its notifications wait on the queue"
	switch {
	case k.closing.reason == providers.DeadTokenSpike && what == begins:
		level, message = slog.LevelError, "most of the app's tokens are dead: its notifications wait on the queue, and no token is reported dead"
	case k.refusals > 0 && what == begins:
		level, message = slog.LevelError, "the app is misconfigured: its notifications wait on the queue until the configuration is fixed"
	case k.refusals > 0:
		message = "the app is still misconfigured"
	case s.Pause != "":
		message = "the app's provider asks for a pause: its notifications wait on the queue"
	case what == goesOn:
		message = "the app's provider is still in trouble"
	}
	attrs = append(attrs, slog.String("reason", string(cmp.Or(s.Pause, s.Trouble.Reason))), slog.String("error", cmp.Or(s.Trouble.Error, k.closing.err)),
		slog.Time("since", r.troubleLog.since), slog.Int("waiting", s.Queued))
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
